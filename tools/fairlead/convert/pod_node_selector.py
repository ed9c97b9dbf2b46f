"""Reads the configuration of the admission plugin PodNodeSelector: its file, and the annotations of
namespaces.

Source: Kubernetes documentation, Admission Control, "PodNodeSelector"; the plugin's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairlead.common import yaml_files
from fairlead.convert.findings import (
    Assignment,
    Everywhere,
    Findings,
    Named,
    Origin,
    Placement,
)
from fairlead.convert.reading import PLUGIN_FILE, Lenient, plugin_key
from fairlead.kube import labels

NAME = "PodNodeSelector"
ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_DEFAULT = "clusterDefaultNodeSelector"


class _File(Lenient):
    pod_node_selector_plugin_config: dict[str, str | None] = {}


@dataclass(frozen=True)
class _Entry:
    """A selector, and where it stands."""

    origin: Origin
    selector: dict[str, str]


class SelectorPlugin:
    """Collects the configuration of PodNodeSelector from all documents, because what a namespace
    gets depends on its annotation and on the file.
    """

    def __init__(self) -> None:
        self.file: Origin | None = None
        """The document that has the plugin's configuration."""
        self._annotated: dict[str, _Entry] = {}
        self._file: dict[str, _Entry] = {}

    def collect_namespace(
        self,
        document: yaml_files.Document,
        name: str,
        annotations: Mapping[str, str],
        origin: Origin,
    ) -> None:
        """Add the annotation of a namespace. Raises InputError."""
        if ANNOTATION in annotations:
            at = ["metadata", "annotations", ANNOTATION]
            self._annotated[name] = _Entry(origin, _parsed(document, at, annotations[ANNOTATION]))

    def collect_file(self, document: yaml_files.Document, origin: Origin) -> None:
        """Add what the plugin's file says. Raises InputError."""
        key = plugin_key(document.value) or PLUGIN_FILE
        plugin = replace(document, value={PLUGIN_FILE: document.value[key]})
        config = plugin.parse(_File).pod_node_selector_plugin_config
        for name, text in config.items():
            selector = _parsed(document, [key, name], text or "")
            self._file[name] = _Entry(origin, selector)

    def finish(self, findings: Findings) -> None:
        """Add the placements of all namespaces that the documents name."""
        default = self._file.get(_DEFAULT)
        node_selector = default.selector if default else {}
        whitelists = {name: entry for name, entry in self._file.items() if name != _DEFAULT}
        apart = {
            *self._annotated,
            *(name for name, entry in whitelists.items() if entry.selector),
        }
        if default and node_selector:
            target = Everywhere(frozenset(apart))
            findings.placements.append(
                Placement(default.origin, target, Assignment(node_selector=node_selector))
            )
        for name in sorted(apart):
            self._place(name, node_selector, whitelists.get(name), findings)

    def _place(
        self, name: str, default: Mapping[str, str], allowed: _Entry | None, findings: Findings
    ) -> None:
        entry = self._annotated.get(name)
        if name not in findings.namespaces:
            assert allowed is not None  # noqa: S101 - its name comes from there
            findings.leave_out(
                allowed.origin,
                f"namespace {name}: the input does not describe it, so its annotation is not "
                f"known: add the output of `kubectl get namespace {name} -o yaml`",
            )
            return
        selector = default if entry is None else entry.selector
        whitelist = allowed.selector if allowed else {}
        origin, _ = findings.namespaces[name]
        if whitelist and not selector.items() <= whitelist.items():
            findings.leave_out(
                origin,
                f"namespace {name}: its whitelist in the plugin's file lacks what the namespace "
                "gives, so the plugin refuses all of its pods: correct one of them",
            )
            return
        if whitelist and not selector:
            findings.leave_out(
                origin,
                f"namespace {name}: it has a whitelist and no nodeSelector, and a pool of Fairlead "
                "always has one: give it one",
            )
            return
        assignment = Assignment(node_selector=selector, allowed=whitelist or None)
        findings.placements.append(Placement(origin, Named(name), assignment))


def _parsed(document: yaml_files.Document, at: Sequence[str | int], text: str) -> dict[str, str]:
    """The selector `k=v,k2=v2`. Raises InputError."""
    selector: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        try:
            if not equals or "=" in value:
                raise ValueError(f"{part.strip()!r} is not KEY=VALUE")
            labels.check_key(key)
            labels.check_value(value)
        except ValueError as error:
            raise document.error(f"{at[-1]}: {error}: write KEY=VALUE,KEY=VALUE", at) from error
        selector[key] = value
    return selector

"""Reads the configuration of the admission plugin PodNodeSelector: its file, and the annotations of
namespaces.

Source: Kubernetes documentation, Admission Control, "PodNodeSelector"; the plugin's own code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from fairlead.common import files
from fairlead.common.errors import InputError
from fairlead.convert.findings import (
    Assignment,
    Everywhere,
    Findings,
    Named,
    Origin,
    Placement,
    origin_of,
)
from fairlead.convert.reading import (
    LENIENT,
    PLUGIN_FILE,
    Metadata,
    group_of,
    is_namespace,
)
from fairlead.convert.targets import Untakable, check_names
from fairlead.kube import labels

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
_OTHER_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/defaultTolerations": "tolerations",
    "scheduler.alpha.kubernetes.io/tolerationsWhitelist": "allowedTolerations",
}
_PLUGIN = "PodNodeSelector"
_DEFAULT = "clusterDefaultNodeSelector"


class _Lenient(BaseModel):
    model_config = LENIENT


class _Namespace(_Lenient):
    metadata: Metadata


class _File(_Lenient):
    pod_node_selector_plugin_config: dict[str, str]


class _Plugin(_Lenient):
    name: str
    path: str = ""
    configuration: dict[str, Any] | None = None


class _AdmissionConfiguration(_Lenient):
    plugins: list[_Plugin] = []


@dataclass(frozen=True)
class _Entry:
    """A selector, and where it stands."""

    origin: Origin
    selector: dict[str, str]


class Plugin:
    """Collects the configuration of PodNodeSelector from all documents, because what a namespace
    gets depends on its annotation and on the file.
    """

    def __init__(self) -> None:
        self._annotated: dict[str, _Entry] = {}
        self._plain: dict[str, Origin] = {}
        self._file: dict[str, _Entry] = {}
        self._elsewhere: list[tuple[Origin, str]] = []

    def concerns(self, value: dict[str, Any]) -> bool:
        """Whether a document may have a part of the configuration."""
        return (
            PLUGIN_FILE in value
            or is_namespace(value)
            or (group_of(value), value["kind"])
            == ("apiserver.config.k8s.io", "AdmissionConfiguration")
        )

    def collect(self, document: files.Document, findings: Findings) -> None:
        """Add what the document says. Raises InputError."""
        if PLUGIN_FILE in document.value:
            self._collect_file(document, origin_of(document))
        elif is_namespace(document.value):
            self._collect_namespace(document, findings)
        else:
            self._collect_admission(document, findings)

    def _collect_namespace(self, document: files.Document, findings: Findings) -> None:
        metadata = document.parse(_Namespace).metadata
        origin = origin_of(document)
        name = metadata.name
        try:
            check_names([name])
        except Untakable as error:
            line = document.line(["metadata", "name"])
            raise InputError(document.path, f"metadata.name: {error}", line=line) from error
        if name in findings.namespaces:
            first = findings.namespaces[name][0].source
            raise InputError(
                document.path,
                f"namespace {name!r} stands at {first}, too: convert one cluster at a time",
                line=document.line(()),
            )
        findings.namespaces[name] = (origin, metadata.labels or {})
        annotations = metadata.annotations or {}
        for key, setting in _OTHER_ANNOTATIONS.items():
            if key in annotations:
                findings.leave_out(
                    origin,
                    f"the annotation {key} of PodTolerationRestriction: write it as {setting} of "
                    "the pool (docs/migrate.md)",
                )
        if ANNOTATION in annotations:
            at = ["metadata", "annotations", ANNOTATION]
            self._annotated[name] = _Entry(origin, _parsed(document, at, annotations[ANNOTATION]))
        else:
            self._plain[name] = origin

    def _collect_admission(self, document: files.Document, findings: Findings) -> None:
        origin = origin_of(document)
        for number, plugin in enumerate(document.parse(_AdmissionConfiguration).plugins):
            if plugin.name != _PLUGIN:
                findings.leave_out(origin, f"the plugin {plugin.name} is not read: keep it")
            elif plugin.configuration is not None:
                part = document.part(["plugins", number, "configuration"])
                own = files.Document(document.path, plugin.configuration, part)
                self._collect_file(own, origin)
            elif plugin.path:
                self._elsewhere.append((origin, plugin.path))

    def _collect_file(self, document: files.Document, origin: Origin) -> None:
        config = document.parse(_File).pod_node_selector_plugin_config
        if self._file:
            first = next(iter(self._file.values())).origin.source
            raise InputError(
                document.path,
                f"the configuration of {_PLUGIN} stands at {first}, too: an API server has one",
                line=document.line(()),
            )
        for name, text in config.items():
            selector = _parsed(document, [PLUGIN_FILE, name], text)
            self._file[name] = _Entry(origin, selector)

    def finish(self, findings: Findings) -> None:
        """Add the placements of all namespaces that the documents name."""
        if not self._file:
            for origin, path in self._elsewhere:
                findings.leave_out(origin, f"the file {path!r} of {_PLUGIN}: name that file, too")
        default = self._file.get(_DEFAULT)
        given = default.selector if default else {}
        whitelists = {name: each for name, each in self._file.items() if name != _DEFAULT}
        apart = {*self._annotated, *(name for name, each in whitelists.items() if each.selector)}
        if default and given:
            target = Everywhere(frozenset(apart))
            findings.placements.append(
                Placement(default.origin, target, Assignment(node_selector=given))
            )
        for name in sorted(apart):
            self._place(name, given, whitelists.get(name), findings)

    def _place(
        self, name: str, default: Mapping[str, str], allowed: _Entry | None, findings: Findings
    ) -> None:
        entry = self._annotated.get(name)
        if entry is None and name not in self._plain:
            assert allowed is not None  # noqa: S101 - its name comes from there
            findings.leave_out(
                allowed.origin,
                f"namespace {name}: the input does not describe it, so its annotation is not "
                f"known: add the output of `kubectl get namespace {name} -o yaml`",
            )
            return
        selector = default if entry is None else entry.selector
        whitelist = allowed.selector if allowed else {}
        origin = entry.origin if entry else self._plain[name]
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


def _parsed(document: files.Document, at: Sequence[str | int], text: str) -> dict[str, str]:
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
            raise InputError(
                document.path,
                f"{at[-1]}: {error}: write KEY=VALUE,KEY=VALUE",
                line=document.line(at),
            ) from error
        selector[key] = value
    return selector

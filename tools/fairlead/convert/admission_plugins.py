"""Reads the configuration of the API server's own admission plugins that place pods:
PodNodeSelector and PodTolerationRestriction."""

from __future__ import annotations

from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.convert import pod_node_selector, pod_toleration_restriction
from fairlead.convert.findings import Findings, Origin, origin_of
from fairlead.convert.pod_node_selector import SelectorPlugin
from fairlead.convert.pod_toleration_restriction import TolerationPlugin
from fairlead.convert.reading import (
    TOLERATIONS_GROUP,
    Lenient,
    Metadata,
    group_of,
    is_namespace,
    plugin_key,
)
from fairlead.convert.targets import Untakable, check_names


class _Namespace(Lenient):
    metadata: Metadata


class _Configured(Lenient):
    name: str
    path: str = ""
    configuration: dict[str, Any] | None = None


class _AdmissionConfiguration(Lenient):
    plugins: list[_Configured] = []


class Plugins:
    """Collects from all documents, because what a namespace gets depends on its annotations and on
    the plugins' files.
    """

    def __init__(self) -> None:
        self._plugins: dict[str, SelectorPlugin | TolerationPlugin] = {
            pod_node_selector.NAME: SelectorPlugin(),
            pod_toleration_restriction.NAME: TolerationPlugin(),
        }
        self._elsewhere: list[tuple[Origin, str, str]] = []
        self._namespaces: dict[str, tuple[Origin, Metadata]] = {}

    def concerns(self, value: dict[str, Any]) -> bool:
        """Whether a document may have a part of the configuration."""
        kind = (group_of(value), value.get("kind"))
        return (
            is_namespace(value)
            or _plugin_of(value) is not None
            or kind == ("apiserver.config.k8s.io", "AdmissionConfiguration")
        )

    def collect(self, document: yaml_files.Document, findings: Findings) -> None:
        """Add what the document says. Raises InputError."""
        if name := _plugin_of(document.value):
            self._collect_file(name, document, origin_of(document))
        elif is_namespace(document.value):
            self._collect_namespace(document, findings)
        else:
            self._collect_admission(document, findings)

    def _collect_namespace(self, document: yaml_files.Document, findings: Findings) -> None:
        metadata = document.parse(_Namespace).metadata
        origin = origin_of(document)
        name = metadata.name
        try:
            check_names([name])
        except Untakable as error:
            line = document.line(["metadata", "name"])
            raise InputError(document.path, f"metadata.name: {error}", line=line) from error
        first, known = self._namespaces.setdefault(name, (origin, metadata))
        if first is not origin:
            if (metadata.labels, metadata.annotations) != (known.labels, known.annotations):
                findings.leave_out(
                    origin,
                    f"it is also in {first.source}, with other labels or annotations, which count: "
                    "convert one cluster at a time",
                )
            return
        findings.namespaces[name] = (origin, metadata.labels or {})
        for plugin in self._plugins.values():
            plugin.collect_namespace(document, name, metadata.annotations or {}, origin)

    def _collect_admission(self, document: yaml_files.Document, findings: Findings) -> None:
        origin = origin_of(document)
        for number, plugin in enumerate(document.parse(_AdmissionConfiguration).plugins):
            if plugin.name not in self._plugins:
                findings.leave_out(origin, f"the plugin {plugin.name} is not read: keep it")
            elif plugin.configuration is not None:
                at = ("plugins", number, "configuration")
                self._collect_file(plugin.name, document.at(at, plugin.configuration), origin)
            elif plugin.path:
                self._elsewhere.append((origin, plugin.name, plugin.path))

    def _collect_file(self, name: str, document: yaml_files.Document, origin: Origin) -> None:
        plugin = self._plugins[name]
        if plugin.file:
            raise document.error(
                f"the configuration of {name} is also in {plugin.file.source}: an API server "
                "has one"
            )
        plugin.collect_file(document, origin)
        plugin.file = origin

    def finish(self, findings: Findings) -> None:
        """Add the placements of all namespaces that the documents name."""
        for origin, name, path in self._elsewhere:
            if not self._plugins[name].file:
                findings.leave_out(origin, f"the file {path!r} of {name}: name that file, too")
        for plugin in self._plugins.values():
            plugin.finish(findings)


def _plugin_of(value: dict[str, Any]) -> str | None:
    """The plugin whose file a document is."""
    if plugin_key(value):
        return pod_node_selector.NAME
    return pod_toleration_restriction.NAME if group_of(value) == TOLERATIONS_GROUP else None

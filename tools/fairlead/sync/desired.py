"""What OPA should hold, by what the API server told so far: events in, one consistent picture out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, Literal

from fairlead.sync import problem
from fairlead.sync.problem import Problem

STATUS = "openpolicyagent.org/kube-mgmt-status"
"""The annotation that tells how a ConfigMap was received; kube-mgmt's."""

Kind = Literal["policies", "data", "namespaces"]
Labels = Mapping[str, str]
Owner = tuple[str, str]  # namespace and name of a ConfigMap
Item = tuple[
    Literal["policy", "document"], str
]  # what OPA holds of a ConfigMap's key, by <namespace>/<configmap>/<key>


@dataclass(frozen=True, slots=True)
class Source:
    """What one watch brings: namespaces, or the ConfigMaps with policies or with data of one namespace (None: all)."""

    kind: Kind
    namespace: str | None = None

    def __str__(self) -> str:
        return self.kind if self.kind == "namespaces" else f"{self.kind} in {self.namespace or 'all namespaces'}"


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A labelled ConfigMap, thin."""

    owner: Owner
    kind: Kind
    texts: Mapping[str, str]
    problems: Mapping[str, Problem]
    resource_version: str = field(compare=False)
    status: str | None = field(compare=False)

    def item(self, key: str) -> Item:
        """What OPA holds for `key`."""
        return "policy" if self.kind == "policies" else "document", "/".join((*self.owner, key))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What OPA should hold at one moment.

    `kept` are items whose new content cannot be sent: what OPA has of them stays. Only where `complete` is true, every
    source has been listed, and what is not here must go. `namespaces` is None until they have been listed.
    """

    texts: Mapping[Item, str]
    kept: frozenset[Item]
    namespaces: Mapping[str, Labels] | None
    complete: bool
    config_maps: tuple[ConfigMap, ...]


class Desired:
    """The state that watches maintain and the reconciler reads; safe for threads."""

    def __init__(
        self, sources: Iterable[Source], *, namespace_labels: Iterable[str], data_label: tuple[str, str] | None
    ) -> None:
        """`namespace_labels` are the keys kept of a namespace's labels.

        `data_label` is the label of data: a ConfigMap with both labels holds data, as for kube-mgmt.
        """
        self.changed = Event()
        """Set at every change of what OPA should hold, until it is taken."""
        self._labels = tuple(namespace_labels)
        self._data_label = data_label
        self._lock = Lock()
        self._changed_at: float | None = None
        self._listed: dict[Source, dict[Any, Any] | None] = dict.fromkeys(sources)

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take a whole list as what there is; `objects` may come page by page, nothing changes until the last."""
        listed = dict(entry for entry in (self._read(source, value) for value in objects) if entry[1] is not None)
        with self._lock:
            before, self._listed[source] = self._listed[source], listed
            if before != listed:
                self._change()

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event: `value` is the object as it is now, or as it was when it was removed."""
        key, entry = self._read(source, value)
        with self._lock:
            listed = self._listed[source]
            if listed is None:
                return
            before = listed.get(key)
            if removed or entry is None:
                listed.pop(key, None)
                entry = None
            else:
                listed[key] = entry
            if before != entry:
                self._change()

    def namespace(self, name: str) -> Labels | None:
        """The labels kept of a namespace, None where it is not replicated."""
        with self._lock:
            for source, listed in self._listed.items():
                if source.kind == "namespaces" and listed and name in listed:
                    labels: Labels = listed[name]
                    return labels
        return None

    def thin(self, labels: Mapping[str, str] | None) -> Labels:
        """Those of a namespace's labels that are kept."""
        return {key: labels[key] for key in self._labels if labels and key in labels}

    def config_map(self, owner: Owner) -> ConfigMap | None:
        """A ConfigMap as last told."""
        with self._lock:
            for source, listed in self._listed.items():
                if source.kind != "namespaces" and listed and owner in listed:
                    found: ConfigMap = listed[owner]
                    return found
        return None

    def changed_at(self) -> float | None:
        """When the oldest change came that has not been taken (time.monotonic); None where there is none."""
        return self._changed_at

    def take(self) -> Snapshot:
        """What OPA should hold now; counts as the end of all changes so far."""
        namespaces: dict[str, Labels] | None = None
        config_maps: list[ConfigMap] = []
        complete = True
        with self._lock:
            self._changed_at = None
            self.changed.clear()
            for source, listed in self._listed.items():
                if source.kind == "namespaces":
                    namespaces = None if listed is None else dict(listed)
                elif listed is None:
                    complete = False
                else:
                    config_maps.extend(listed.values())
        texts = {one.item(key): text for one in config_maps for key, text in one.texts.items()}
        kept = frozenset(one.item(key) for one in config_maps for key in one.problems)
        return Snapshot(texts, kept, namespaces, complete, tuple(config_maps))

    def _change(self) -> None:
        self._changed_at = self._changed_at or time.monotonic()
        self.changed.set()

    def _read(self, source: Source, value: Mapping[str, Any]) -> tuple[Any, Any]:
        """The key and the thin entry of an object; the entry is None where it does not count."""
        metadata = value["metadata"]
        name: str = metadata["name"]
        if source.kind == "namespaces":
            return name, self.thin(metadata.get("labels"))
        owner = (metadata["namespace"], name)
        if source.kind == "policies" and self._data_label:
            label, wanted = self._data_label
            if (metadata.get("labels") or {}).get(label) == wanted:
                return owner, None
        return owner, _config_map(owner, source.kind, value)


def _config_map(owner: Owner, kind: Kind, value: Mapping[str, Any]) -> ConfigMap:
    texts: dict[str, str] = {}
    problems: dict[str, Problem] = {}
    check = problem.of_policy if kind == "policies" else problem.of_document
    for key, text in sorted((value.get("data") or {}).items()):
        found = check("/".join((*owner, key)), text)
        if found:
            problems[key] = found
        else:
            texts[key] = text
    for key in sorted(value.get("binaryData") or {}):
        problems[key] = problem.of_bytes("/".join((*owner, key)))
    metadata = value["metadata"]
    status = (metadata.get("annotations") or {}).get(STATUS)
    return ConfigMap(owner, kind, texts, problems, metadata.get("resourceVersion", ""), status)

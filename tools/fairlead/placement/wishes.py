"""Finds what looks like a wish about clusters and is not read: annotations and labels whose keys
resemble one that is read, keys of Federation v1, and wishes that stand in the template of pods."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Document
from fairlead.placement import manifest_kinds
from fairlead.placement.manifest_kinds import Scopes, mapping
from fairlead.placement.placements import ANNOTATION

SELECTOR = "federation.alpha.kubernetes.io/cluster-selector"
_PREFERENCES = "replica-set-preferences"
STATED = (
    *("criticality", "customer", "max-replicas-per-cluster", "min-clusters", "move-volumes"),
    *(_PREFERENCES, "traffic"),
)
"""The keys of annotations, or else labels, that placement reads."""
KEYS = frozenset((*STATED, SELECTOR, ANNOTATION))
"""The keys of annotations that placement reads."""

_FEDERATION = re.compile(r"federation(\.alpha)?\.kubernetes\.io/(?P<name>.+)")
_MEANT = {
    **{key.rpartition("/")[2]: key for key in sorted(KEYS - {ANNOTATION})},
    **dict.fromkeys(("clusters", "deployment-preferences"), _PREFERENCES),
}
"""What is meant by the name of a key, without its prefix."""
_GENERAL = {"criticality", "clusters", "customer", "traffic"}
"""Names that with another prefix belong to others."""
_OURS = "fairlead.dev"
_NO_WISHES = {"criticality", "customer", ANNOTATION}
"""Keys that pods may have for reasons of their own."""
_SIMILAR = 0.85
"""With 0.8, one could mean `customer` by `cluster`."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def unread(documents: Sequence[Document]) -> Iterator[str]:
    """A sentence for each key that looks like a wish and is not read, with its place. What a
    controller makes has the keys of its owner.
    """
    scopes = Scopes(documents)
    for document in documents:
        if manifest_kinds.owner_of(document.value):
            continue
        namespaced = scopes.is_namespaced(document.value) is not False
        title = manifest_kinds.title_of(document.value, namespaced=namespaced)
        metadata = document.value.get("metadata") or {}
        read = {key for field in ("annotations", "labels") for key in mapping(metadata.get(field))}
        for field, key, value in _pairs(metadata):
            if advice := _advice(field, key, value):
                yield _sentence(document, title, ("metadata", field, key), advice)
        for path, template in _templates(document.value):
            for field, key, _ in _pairs(mapping(template.get("metadata"))):
                if key in KEYS - _NO_WISHES - read:
                    location = (*path, "metadata", field, key)
                    yield _sentence(document, title, location, f"write it to metadata.{field}")


def _pairs(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for field in ("annotations", "labels"):
        for key, value in mapping(metadata.get(field)).items():
            yield field, str(key), value


def _advice(field: str, key: str, value: Any) -> str | None:
    """What to write instead of this key; None if it is read, or no wish."""
    if key == SELECTOR and field == "labels":
        return "write it as an annotation"
    if key == ANNOTATION:
        # It keeps the last decision. In Federation v1, people wrote their wishes there.
        wished = "minReplicas" in str(value) or "rebalance" in str(value)
        return f"did you mean {_PREFERENCES}?" if wished else None
    return None if key in KEYS else _advice_about(key)


@lru_cache(4096)
def _advice_about(key: str) -> str | None:
    """What to write instead of a key that is not read; None for no wish. The workloads of a cluster
    share most of their keys.
    """
    prefix, _, name = key.rpartition("/")
    spelt = _CAPITAL.sub("-", name).replace("_", "-").lower()
    federation = _FEDERATION.fullmatch(key)
    if prefix and not federation:
        of_others = set() if prefix == _OURS else _GENERAL
        return f"did you mean {_MEANT[spelt]}?" if spelt in _MEANT.keys() - of_others else None
    if federation and spelt.endswith("-preferences"):
        return f"did you mean {_PREFERENCES}?"
    # What resembles `clusters` is a word of others, such as the label `cluster`.
    likely = [spelt] if spelt in _MEANT else sorted(_MEANT.keys() - {"clusters"})
    exchanged = [name for name in likely if sorted(name) == sorted(spelt)]  # costumer
    if close := exchanged or difflib.get_close_matches(spelt, likely, 1, _SIMILAR):
        return f"did you mean {_MEANT[close[0]]}?"
    return "placement reads no other keys of Federation v1" if federation else None


def _templates(manifest: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The templates of pods of one of Kubernetes' own workloads, with their paths."""
    path = manifest_kinds.TEMPLATES.get(manifest_kinds.kind_of(manifest), ())
    part: Any = manifest
    for number, step in enumerate(path, 1):
        part = mapping(part).get(step)
        if step.lower().endswith("template"):
            yield path[:number], mapping(part)


def _sentence(document: Document, title: str, location: tuple[str, ...], advice: str) -> str:
    line = document.line(location)
    path = yaml_files.shown(document.path)
    where = f"{path}:{line}" if line else str(path)
    key = ".".join(location[:-1])
    return f"{where}: {title}: {key} has {location[-1]!r}, which is not read: {advice}"

"""The kinds of objects that are known without a cluster, by API servers' own discovery: those of
Kubernetes itself, Fairlead's own, and those of CustomResourceDefinitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fairlead.common import paths
from fairlead.kube import own_kinds
from fairlead.kube.discovery import Kind

Known = Mapping[tuple[str, str], Kind]
"""Kinds, by their group and their name."""


def file() -> Path:
    """The table of the pinned API server: for each group, for each kind, its plural and whether it
    has a namespace. `python -m lab generate --kinds` writes it.
    """
    return paths.root() / "tools" / "toolchain" / "kubernetes" / "kinds.json"


@cache
def builtin() -> Known:
    """The kinds of Kubernetes itself, without their verbs."""
    table = json.loads(file().read_text("utf-8"))
    return {
        (group, name): Kind(f"{group}/v1".lstrip("/"), name, plural, namespaced, ())
        for group, kinds in table.items()
        for name, (plural, namespaced) in kinds.items()
    }


def _own() -> list[Kind]:
    every = (own_kinds.FAIRLEADS, own_kinds.POLICIES, own_kinds.EXCEPTIONS)
    return [
        Kind(own_kinds.VERSION, name, plural, plural == own_kinds.EXCEPTIONS[0], ())
        for plural, name, _ in every
    ]


def by_name(kinds: Iterable[Kind]) -> Known:
    """These kinds, those of Kubernetes itself, and Fairlead's own."""
    return {**builtin(), **{(kind.group, kind.name): kind for kind in (*_own(), *kinds)}}


def of_definitions(manifests: Iterable[Mapping[str, Any]]) -> list[Kind]:
    """The kinds that the CustomResourceDefinitions among the manifests define."""
    return [
        kind
        for manifest in manifests
        if manifest["kind"] == "CustomResourceDefinition"
        for kind in _of_definition(manifest.get("spec"))
    ]


def _of_definition(spec: Any) -> list[Kind]:
    names = spec.get("names") if isinstance(spec, dict) else None
    if not isinstance(names, dict):
        return []
    texts = [spec.get("group"), names.get("kind"), names.get("plural"), spec.get("scope")]
    if not all(isinstance(text, str) for text in texts):
        return []
    group, name, plural, scope = map(str, texts)
    return [Kind(f"{group}/v1", name, plural, scope == "Namespaced", ())]

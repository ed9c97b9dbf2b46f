"""Placements as `fairlead place` decides them, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import highest_averages

from fairlead.common.yaml_files import Document
from fairlead.placement import manifest_kinds
from fairlead.placement.decisions import Result
from fairlead.placement.placements import Placement

_GROUPS = {kind: group for group, kind in manifest_kinds.TEMPLATES}


def placement(
    clusters: Mapping[str, float],
    *,
    name: str = "web",
    kind: str = "Deployment",
    namespace: str = "shop",
    errors: Mapping[str, Sequence[str]] | None = None,
    changes: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Placement:
    """The placement of a workload with this spec, 6 pods by default. `changes` are fields of the
    placement.
    """
    field = "parallelism" if kind == "Job" else "replicas"
    manifest: dict[str, Any] = {
        "apiVersion": "/".join(filter(None, (_GROUPS[kind], "v1"))),
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {field: 6, **spec},
    }
    weights = {} if errors else clusters
    replicas = highest_averages.divided(manifest["spec"][field], weights)
    parts = {
        "fields": {name: {field: count} for name, count in replicas.items()},
        **(changes or {}),
    }
    document = Document(Path("app.yaml"), manifest, None)
    return Placement(document, weights, replicas, errors or {}, {}, {}, **parts)


def follower(
    clusters: Sequence[str],
    *,
    kind: str = "Secret",
    api_version: str = "v1",
    name: str = "web",
    namespace: str = "shop",
    errors: Mapping[str, Sequence[str]] | None = None,
    **changes: Any,
) -> Placement:
    """The placement of an object without pods; `namespace` is empty for one of none."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return Placement(
        Document(Path("app.yaml"), manifest, None),
        dict.fromkeys(() if errors else clusters, 1),
        {},
        errors or {},
        {},
        {},
        namespaced=bool(namespace),
        follows=True,
        **changes,
    )


def result(*parts: Placement) -> Result:
    """What was read: these objects."""
    return Result([(part.document, part) for part in parts])

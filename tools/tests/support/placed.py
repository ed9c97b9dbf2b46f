"""Placements as `fairlead place` decides them, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common.yaml_files import Document
from fairlead.placement import replica_division
from fairlead.placement.decisions import WORKLOADS, Placement, Result, kind_of


def placement(
    clusters: Mapping[str, float],
    *,
    name: str = "web",
    kind: str = "Deployment",
    namespace: str = "shop",
    errors: Mapping[str, Sequence[str]] | None = None,
    **spec: Any,
) -> Placement:
    """The placement of a workload with this spec, 6 pods by default."""
    manifest: dict[str, Any] = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
    }
    count = WORKLOADS[kind_of(manifest)]
    manifest["spec"] = {count: 6, **spec}
    replicas = {} if errors else replica_division.divided(manifest["spec"][count], clusters)
    document = Document(Path("app.yaml"), manifest, None)
    return Placement(document, {} if errors else clusters, replicas, errors or {}, {}, {})


def result(*parts: Placement | Mapping[str, Any]) -> Result:
    """What was read: placements, and manifests that are not workloads."""
    return Result(
        [
            (part.document, part)
            if isinstance(part, Placement)
            else (Document(Path("app.yaml"), part, None), None)
            for part in parts
        ]
    )

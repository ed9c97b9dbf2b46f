"""The workloads that were placed, as the engines that carry out the decisions name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.placement.decisions import WORKLOADS, Placement, kind_of


@dataclass(frozen=True)
class Workload:
    """A workload that has clusters, and the field of its spec that counts its pods."""

    placement: Placement
    api_version: str
    kind: str
    namespace: str
    name: str
    field: str

    @property
    def replicas(self) -> dict[str, int]:
        """The pods of each cluster that runs any; of all its clusters, if it has none to run."""
        replicas = self.placement.replicas
        return {name: count for name, count in replicas.items() if count} or dict(replicas)


def of(placements: Sequence[Placement]) -> list[Workload]:
    """The workloads without errors, in their order. Raises InputError for one without a name, and
    for one that is there twice: others could not tell them apart.
    """
    workloads = []
    by_title: dict[str, Placement] = {}
    for placement in placements:
        if placement.errors:
            continue
        manifest = placement.document.value
        metadata = manifest.get("metadata") or {}
        path, line = yaml_files.shown(placement.document.path), placement.document.line(())
        if not metadata.get("name"):
            problem = f"{placement.title} has no metadata.name, by which its clusters can know it"
            raise InputError(path, f"{problem}: give it one", line=line)
        if placement.title in by_title:
            raise InputError(path, f"{placement.title} is here twice: remove one", line=line)
        by_title[placement.title] = placement
        workloads.append(
            Workload(
                placement,
                manifest["apiVersion"],
                manifest["kind"],
                placement.namespace,
                metadata["name"],
                WORKLOADS[kind_of(manifest)],
            )
        )
    return workloads


def by_namespace(workloads: Sequence[Workload]) -> Iterator[tuple[str, list[Workload]]]:
    """The workloads of each namespace, sorted by its name."""
    for namespace in sorted({workload.namespace for workload in workloads}):
        yield namespace, [item for item in workloads if item.namespace == namespace]

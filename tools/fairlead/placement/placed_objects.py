"""The objects that were placed, as the engines that carry out the decisions name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.placement import manifest_kinds
from fairlead.placement.placements import Placement


@dataclass(frozen=True)
class PlacedObject:
    """An object that has clusters. `namespace` is empty if it belongs to none."""

    placement: Placement
    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def targets(self) -> list[str]:
        """The clusters that get it, sorted."""
        return self.placement.targets

    @property
    def fields(self) -> Mapping[str, Mapping[str, int | None]]:
        """The fields of its spec that differ between these clusters; None for one to leave out."""
        return {name: self.placement.fields.get(name, {}) for name in self.targets}

    @property
    def home(self) -> str:
        """The namespace that it belongs to or is; empty for none."""
        is_namespace = (self.api_version, self.kind) == ("v1", "Namespace")
        return self.name if is_namespace else self.namespace


def of(placements: Sequence[Placement]) -> list[PlacedObject]:
    """The objects that are without errors and somewhere, in their order. Raises InputError for one
    without a name, and for one that is there twice: others could not tell them apart.
    """
    objects = []
    seen: set[tuple[str, str]] = set()
    for placement in placements:
        if placement.errors or not placement.targets:
            continue
        manifest = placement.document.value
        metadata = manifest.get("metadata") or {}
        path, line = yaml_files.shown(placement.document.path), placement.document.line(())
        if not metadata.get("name"):
            problem = f"{placement.title} has no metadata.name, by which its clusters can know it"
            raise InputError(path, f"{problem}: give it one", line=line)
        key = (manifest_kinds.kind_of(manifest)[0], placement.title)
        if key in seen:
            raise InputError(path, f"{placement.title} is here twice: remove one", line=line)
        seen.add(key)
        objects.append(
            PlacedObject(
                placement,
                manifest["apiVersion"],
                manifest["kind"],
                placement.namespace,
                metadata["name"],
            )
        )
    return objects


def by_home(objects: Sequence[PlacedObject]) -> Iterator[tuple[str, list[PlacedObject]]]:
    """The objects of each namespace, with that itself, sorted by its name; first those of none."""
    for home in sorted({placed.home for placed in objects}):
        yield home, [placed for placed in objects if placed.home == home]

"""Objects that a module brings into a cluster which it shares, and takes away again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from waits import until

from fairlead.kube import clients
from fairlead.kube.own_kinds import NAME, VERSION


@contextmanager
def applied(objects: clients.Objects, manifests: Iterable[Mapping[str, Any]]) -> Iterator[None]:
    """Apply the manifests in their order, and delete the objects after the block; returns once
    they are gone.
    """
    present: list[tuple[str, str, str, str | None]] = []
    try:
        for manifest in manifests:
            objects.apply(dict(manifest))
            metadata = manifest["metadata"]
            present.append(
                (
                    manifest["apiVersion"],
                    manifest["kind"],
                    metadata["name"],
                    metadata.get("namespace"),
                )
            )
        yield
    finally:
        for reference in reversed(present):
            objects.delete(*reference)
        until(
            lambda: not any(objects.get(*reference) for reference in present),
            what="what the tests brought is gone",
        )


def fairlead_manifest(**spec: Any) -> dict[str, Any]:
    """The manifest of the object Fairlead with these settings."""
    return {"apiVersion": VERSION, "kind": "Fairlead", "metadata": {"name": NAME}, "spec": spec}


def until_settings_are_in_force(objects: clients.Objects) -> None:
    """Return when the controller says of the object Fairlead that it is in force."""

    def in_force() -> bool:
        live = objects.get(VERSION, "Fairlead", NAME) or {}
        conditions = live.get("status", {}).get("conditions") or ()
        return any(condition["status"] == "True" for condition in conditions)

    until(in_force, what="the settings are in force")


def namespace_manifest(name: str, **labels: str) -> dict[str, Any]:
    """The manifest of a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }

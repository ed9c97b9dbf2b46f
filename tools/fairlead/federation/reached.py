"""A member cluster during one run: applies and removes objects of its own, and says what it could
not do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.federation.members import FIELD_MANAGER
from fairlead.kube import clients
from fairlead.kube.errors import Unreachable
from fairlead.operations.applying import Applier


class ReachedCluster:
    """A cluster that answered once. If it stops answering, it is `lost`, and nothing more is tried.

    `problems` are sentences about what could not be done.
    """

    def __init__(self, name: str, objects: clients.Objects) -> None:
        self.name = name
        self.applier = Applier(objects)
        self.lost = False
        self.problems: list[str] = []

    def read(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        """The object that the manifest identifies; None if there is none, or the cluster does not
        tell.
        """
        with self._attempt():
            return self._present(manifest)
        return None

    def apply(self, manifest: Mapping[str, Any]) -> bool:
        """Apply the object, unless others did before; whether that succeeded.

        A namespace of others is left as it is, which is success.
        """
        with self._attempt():
            present = self._present(manifest)
            if present is not None and not is_ours(present):
                if manifest["kind"] == "Namespace":
                    return True
                raise FairleadError(
                    f"{_shown(manifest)} is there already, and `fairlead place` did not make it: "
                    "remove it there, or leave it out here"
                )
            if present is not None and present["metadata"].get("deletionTimestamp"):
                raise FairleadError(f"{_shown(manifest)} is being deleted: run this again later")
            self.applier.apply(manifest)
            return True
        return False

    def remove(self, manifest: Mapping[str, Any]) -> None:
        """Remove the object, if `apply` made it."""
        with self._attempt():
            present = self._present(manifest)
            if present is not None and is_ours(present):
                self.applier.delete(*_identity(manifest))

    def _present(self, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.lost:
            raise _Lost
        return self.applier.objects.get(*_identity(manifest))

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        """Turns an error into a problem."""
        try:
            yield
        except _Lost:
            return
        except FairleadError as error:
            self.problems.append(f"{self.name}: {error}")
            self.lost = isinstance(error, Unreachable)


class _Lost(Exception):
    """The cluster stopped answering, which was reported then."""


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether an object, as the API server has it, was applied by `ReachedCluster.apply`."""
    return any(
        entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        for entry in live["metadata"].get("managedFields") or ()
    )


def _identity(manifest: Mapping[str, Any]) -> tuple[str, str, str, str | None]:
    metadata = manifest["metadata"]
    return (
        manifest["apiVersion"],
        manifest["kind"],
        metadata["name"],
        metadata.get("namespace"),
    )


def _shown(manifest: Mapping[str, Any]) -> str:
    _, kind, name, namespace = _identity(manifest)
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"

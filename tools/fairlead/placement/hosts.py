"""The host cluster of a federation: the API server that has the workloads, such as Karmada's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from fairlead.clusters import contexts
from fairlead.common import atomic_files
from fairlead.kube import clients

FIELD_MANAGER = "fairlead-place"
"""The field manager of what is applied in host clusters. An object that it did not apply is left
alone."""


@dataclass(frozen=True)
class Host:
    """A host cluster, named by its context, and the kubeconfig (only one context) that leads to
    it.
    """

    name: str
    kubeconfig: str

    @classmethod
    def of_context(cls, context: str, kubeconfig: Path | None = None) -> Host:
        """The cluster of a context. `kubeconfig` has the context; None for KUBECONFIG or
        ~/.kube/config. Raises UsageError, InputError.
        """
        name, document = contexts.of(context, kubeconfig)
        return cls(name, yaml.safe_dump(document, sort_keys=False))

    def objects(self) -> clients.Objects:
        """A client of the cluster's objects, for one thread. Raises UsageError if the cluster
        cannot be reached.
        """
        with TemporaryDirectory(prefix="fairlead-") as folder:
            file = Path(folder) / "kubeconfig"
            atomic_files.write_private(file, self.kubeconfig.encode())
            return clients.reach(file, field_manager=FIELD_MANAGER)


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether `fairlead place` applied an object that the API server has."""
    return any(
        entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
        for entry in live["metadata"].get("managedFields") or ()
    )

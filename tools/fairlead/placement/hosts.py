"""The host cluster of a federation: the API server that has the workloads, such as Karmada's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from fairlead.clusters import contexts
from fairlead.common import atomic_files
from fairlead.common.errors import UsageError
from fairlead.deployment import ownership
from fairlead.kube import clients
from fairlead.kube.api_requests import MOST, SMALL_PAGE
from fairlead.kube.errors import ApiServerError

FIELD_MANAGER = "fairlead-place"
"""The field manager of what is applied in host clusters."""


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
        """A client of the cluster's objects, for one thread, which reads none of megabytes. Raises
        UsageError if the cluster cannot be reached, or does not let us in.
        """
        with self.as_file() as file:
            try:
                return clients.reach(file, field_manager=FIELD_MANAGER, page=SMALL_PAGE, most=MOST)
            except ApiServerError as error:
                raise UsageError(f"{self.name}: {error}") from error

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """The kubeconfig as a file, during the block."""
        with TemporaryDirectory(prefix="fairlead-") as folder:
            file = Path(folder) / "kubeconfig"
            atomic_files.write_private(file, self.kubeconfig.encode())
            yield file


def is_ours(live: Mapping[str, Any]) -> bool:
    """Whether `fairlead place` made an object that the API server has. All others are left alone.

    A tenant can mark a policy in a namespace of his: `place` then writes there what it decided, or
    deletes it. He can do both himself.
    """
    return ownership.is_ours(live.get("kind", ""), live, manager=FIELD_MANAGER)

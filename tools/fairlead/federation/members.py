"""The member clusters: the clusters that decisions name, each with a context by which it is
reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from fairlead.clusters import contexts
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import atomic_files
from fairlead.common.errors import UsageError
from fairlead.kube import clients
from fairlead.kube.errors import Refused

FIELD_MANAGER = "fairlead-place"
"""The field manager of what is applied in member clusters. An object that it did not apply is left
alone."""


@dataclass(frozen=True)
class Member:
    """A cluster as decisions name it, and the kubeconfig (only one context) that leads to it."""

    name: str
    kubeconfig: str

    @classmethod
    def parse(cls, text: str, kubeconfig: Path | None = None) -> Member:
        """The member of `NAME=CONTEXT`, where `kubeconfig` has the context (None for KUBECONFIG or
        ~/.kube/config); or of `NAME`, an embedded cluster that runs. Raises UsageError, InputError.
        """
        name, equals, context = text.partition("=")
        if not name or (equals and not context):
            raise UsageError(
                f"--member {text}: write NAME=CONTEXT, or the NAME of a cluster of "
                "`fairlead up --member NAME`"
            )
        if equals:
            _, document = contexts.of(context, kubeconfig)
            return cls(name, yaml.safe_dump(document, sort_keys=False))
        cluster = BareCluster(name)
        if not cluster.running():
            raise UsageError(
                f"--member {name}: no such cluster is running: start it by `fairlead up --member "
                f"{name}`, or write {name}=CONTEXT"
            )
        return cls(name, cluster.kubeconfig.read_text(encoding="utf-8"))

    @classmethod
    def of_context(cls, context: str, kubeconfig: Path | None = None) -> Member:
        """The cluster of a context, named by that. Raises UsageError, InputError."""
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


def parsed(texts: Iterable[str], kubeconfig: Path | None) -> list[Member]:
    """The members that the texts describe, sorted by name. Raises UsageError for one that is named
    twice.
    """
    members: dict[str, Member] = {}
    for text in texts:
        member = Member.parse(text, kubeconfig)
        if member.name in members:
            raise UsageError(f"--member {member.name} is named twice: leave one of them out")
        members[member.name] = member
    return [members[name] for name in sorted(members)]


def require_distinct(clusters: Mapping[str, clients.Objects]) -> None:
    """Raises UsageError if two members (name -> its objects) are one cluster: each would undo what
    the other one applies.
    """
    names: dict[str, str] = {}
    for name, objects in clusters.items():
        try:
            namespace = objects.get("v1", "Namespace", "kube-system")
        except Refused:
            continue  # whoever may not read it cannot be told
        uid = namespace["metadata"]["uid"] if namespace else name
        if uid in names:
            raise UsageError(
                f"--member {names[uid]} and --member {name} lead to the same cluster: correct the "
                "context of one of them. Nothing was changed"
            )
        names[uid] = name

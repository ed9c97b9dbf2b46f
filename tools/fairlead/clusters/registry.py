"""Chooses a command's cluster by its flags and the environment: embedded, KIND or a context.
cli/options.py decides that `--context` alone means `--cluster context`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from fairlead.clusters import contexts
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError

# A kind's module is imported when a cluster of it is made: together with the Kubernetes client they
# take longer to load than `fairlead eval` to decide.
if TYPE_CHECKING:
    from fairlead.clusters.base import Cluster
    from fairlead.clusters.embedded.cluster import EmbeddedCluster
    from fairlead.clusters.kind import KindCluster

NAME = "fairlead"
"""The default name of a cluster."""


@dataclass(frozen=True)
class Target:
    """Names a cluster: by its kind and name, or, for the kind context, by a context and the
    kubeconfig that has it.

    The default context is the current one; the default kubeconfig is that of KUBECONFIG, or
    ~/.kube/config.
    """

    kind: str = "embedded"
    name: str = NAME
    context: str | None = None
    kubeconfig: Path | None = None


def _embedded(target: Target) -> EmbeddedCluster:
    from fairlead.clusters.embedded.cluster import EmbeddedCluster

    return EmbeddedCluster(target.name)


def _kind(target: Target) -> KindCluster:
    from fairlead.clusters.kind import KindCluster

    return KindCluster(target.name)


def _context(target: Target) -> Cluster:
    from fairlead.clusters import remote

    return remote.of_context(target.context, target.kubeconfig)


# A new kind is a module, a function that makes one, and its line here.
KINDS: Mapping[str, Callable[[Target], Cluster]] = MappingProxyType(
    {"embedded": _embedded, "kind": _kind, "context": _context}
)


def chosen(
    kind: str, name: str | None = None, context: str | None = None, kubeconfig: Path | None = None
) -> Target:
    """The cluster that the given options name, with defaults for the others. Raises
    UsageError for options that are empty or contradict each other.
    """
    for flag, value in {"--name": name, "--context": context}.items():
        check_not_empty(flag, value)
    if kind == "context":
        if name is not None:
            raise UsageError(
                "--name is for clusters that Fairlead makes: choose an existing one by --context "
                "alone"
            )
        return Target(kind, NAME, context or os.environ.get("FAIRLEAD_CONTEXT") or None, kubeconfig)
    if context is not None:
        raise UsageError(f"--context means --cluster context, not {kind}: leave one of them out")
    if kubeconfig is not None:
        raise UsageError(
            "--kubeconfig is for existing clusters: name a --context with it, or leave it out"
        )
    kind_name = os.environ.get("KIND_CLUSTER_NAME") if kind == "kind" else None
    return Target(kind, name or kind_name or NAME)


def recognized(target: Target) -> Target:
    """The embedded or KIND cluster that Fairlead made and that the context of `target` leads to;
    `target` itself if the context leads to another cluster.

    There OPA is reached as in that kind of cluster, and not as in others: beside an embedded
    cluster, it is not a pod. Raises UsageError if it is an embedded cluster of another checkout.
    """
    if target.kind != "context":
        return target
    from fairlead.clusters.embedded.cluster import EmbeddedCluster

    chosen_context = (target.context, target.kubeconfig)
    try:
        for cluster in known():
            if isinstance(cluster, EmbeddedCluster) and not cluster.planned():
                continue
            if contexts.leads_to(*chosen_context, cluster.kubeconfig):
                return Target(cluster.kind, cluster.name)
        folder = contexts.embedded_folder(*chosen_context)
        marked = _marked(target)
    except FairleadError:  # whoever uses the context is told
        return target
    if folder and folder.parent != paths.state("x").parent and (folder / "pods.json").exists():
        raise UsageError(
            f"the context leads to the embedded cluster {folder.name!r} of another checkout, "
            f"{folder.parent.parent}: run this command there"
        )
    return marked or target


def _marked(target: Target) -> Target | None:
    """The KIND cluster of a context that kind named, if another checkout made it: it carries our
    mark. Raises FairleadError.
    """
    name, document = contexts.of(target.context, target.kubeconfig)
    entry = str(document["clusters"][0]["name"])
    if not entry.startswith("kind-"):
        return None
    with suppress(FairleadError):  # there is no Docker here, or it is not ours
        cluster = _kind(Target("kind", entry.removeprefix("kind-")))
        if cluster.running() and contexts.leads_to(name, target.kubeconfig, cluster.kubeconfig):
            return Target("kind", cluster.name)
    return None


def flags(kind: str, name: str) -> str:
    """The flags that choose this cluster, with a space before each; empty for the default one."""
    chosen_kind = "" if kind == "embedded" else f" --cluster {kind}"
    return chosen_kind + ("" if name == NAME else f" --name {name}")


def fate(cluster: EmbeddedCluster | KindCluster) -> str:
    """What became of the cluster after a command failed or was interrupted, in a sentence."""
    down = f"`fairlead down{flags(cluster.kind, cluster.name)}`"
    try:
        running = cluster.running()
    except FairleadError as error:
        return f"whether {cluster.name} is still there is not known ({error})"
    if running:
        return (
            f"{cluster.name} is still there: run the command again to go on, or {down} to remove it"
        )
    if cluster.path.is_dir():
        return f"{cluster.name} was removed in part: {down} removes the rest"
    return f"{cluster.name} was removed"


def check_not_empty(flag: str, value: str | None) -> None:
    """Raises UsageError for an empty name, such as that of an unset variable: it would mean
    the default cluster.
    """
    if value is not None and not value.strip():
        raise UsageError(
            f"{flag} is empty: name a cluster, or leave {flag} out for the default one"
        )


def make(target: Target) -> Cluster:
    """The cluster, whether it runs or not. Raises UsageError if there can be no such cluster."""
    return KINDS[target.kind](target)


def find(target: Target) -> Cluster:
    """The cluster, which runs. Raises UsageError if it does not (the error lists those that
    do), or if there is no such context.
    """
    cluster = make(target)
    if not cluster.running():
        hint = f" (running: {', '.join(running()) or 'none'})" if target.kind == "embedded" else ""
        raise UsageError(
            f"no cluster {target.name!r} is running{hint}: {_hint(target)}"
            f"`fairlead up{flags(target.kind, target.name)}`"
        )
    return cluster


def _hint(target: Target) -> str:
    """What to do if `target` does not run: the other kind of cluster may be meant."""
    if target.kind == "embedded" and (names := _running_kind()):
        flags = [f"--cluster kind{'' if name == NAME else f' --name {name}'}" for name in names]
        return (
            f"did you mean the KIND cluster ({' or '.join(f'`{flag}`' for flag in flags)})? "
            "Else start it with "
        )
    if target.kind == "embedded" and (names := running()):
        chosen = " or ".join(f"`{_in_make(f'--name {name}')}`" for name in names)
        return f"add {chosen}, or start {target.name!r} with "
    if target.kind == "kind" and target.name in running():
        name_flag = "" if target.name == NAME else f" --name {target.name}"
        return (
            f"did you mean the embedded one (`--cluster embedded{name_flag}`)? Else start it with "
        )
    return "start it with "


def _in_make(flags: str) -> str:
    """Flags as one writes them who called this command, or the target of the Makefile."""
    return f"ARGS='{flags}'" if os.environ.get("MAKELEVEL", "0") != "0" else flags


def known() -> Iterator[EmbeddedCluster | KindCluster]:
    """The clusters of this checkout that Fairlead created, running or not, sorted by name. The
    embedded ones come first.
    """
    folder = paths.state("x").parent
    for path in sorted(folder.glob("*/processes.json")):
        yield _embedded(Target(name=path.parent.name))
    for path in sorted(folder.glob("kind-*/containers.json")):
        with suppress(FairleadError):
            yield _kind(Target("kind", path.parent.name.removeprefix("kind-")))


def _running_kind() -> list[str]:
    """The names of the running KIND clusters of this checkout; empty if Docker cannot be used."""
    names = []
    for cluster in known():
        with suppress(FairleadError):
            if cluster.kind == "kind" and cluster.running():
                names.append(cluster.name)
    return names


def running() -> list[str]:
    """The names of the running embedded clusters of this checkout."""
    return [cluster.name for cluster in known() if cluster.kind == "embedded" and cluster.running()]

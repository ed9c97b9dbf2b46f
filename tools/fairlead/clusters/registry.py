"""The kinds of cluster, and how one is found by its name."""

from __future__ import annotations

from fairlead import paths
from fairlead.clusters.embedded.placing import EmbeddedCluster
from fairlead.errors import UsageError

KINDS = {"embedded": EmbeddedCluster}


def find(name: str) -> EmbeddedCluster:
    """The running cluster `name`. Raises UsageError where there is none, with the names of those that are."""
    cluster = EmbeddedCluster(name)
    if not cluster.running():
        others = ", ".join(running()) or "none"
        hint = "" if name == "fairlead" else f" --name {name}"
        raise UsageError(f"no cluster {name!r} is running (running: {others}): start it with `fairlead up{hint}`")
    return cluster


def running() -> list[str]:
    """The names of the clusters that run on this machine, out of this checkout."""
    folder = paths.state("x").parent
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [name for name in names if EmbeddedCluster(name).running()]

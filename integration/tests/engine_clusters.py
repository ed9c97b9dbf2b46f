"""Clusters that an engine of its own enforces the policies in, and commands about them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import command_line

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.operations import up
from fairlead.settings.models import Settings

Run = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs a command with these arguments, with the text of a settings file as `settings`."""


@contextmanager
def started(name: str, engine: str) -> Iterator[EmbeddedCluster]:
    """A cluster with the namespaces `mapped`, which is mapped to pool1, and `free`."""
    with up.started(name, Settings(), {"pool1": 1}, engine=engine, progress=Progress()) as cluster:
        objects = cluster.objects()
        for namespace, labels in (("mapped", {"agentpool": "pool1"}), ("free", {})):
            metadata = {"name": namespace, "labels": labels}
            objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        yield cluster


def commands(cluster: EmbeddedCluster, folder: Path) -> Run:
    """Runs `fairlead` on the cluster. The settings file is written into the folder."""

    def run(*arguments: str, settings: str | None = None) -> subprocess.CompletedProcess[str]:
        chosen: tuple[str, ...] = ("--name", cluster.name)
        if settings is not None:
            (folder / "fairlead.yaml").write_text(settings)
            chosen += ("--settings", str(folder / "fairlead.yaml"))
        return command_line.fairlead(*arguments, *chosen)

    return run

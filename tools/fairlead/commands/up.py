"""`fairlead up`: start a cluster."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from fairlead import output as out
from fairlead import settings as library
from fairlead import sidecars, status
from fairlead.clusters import registry
from fairlead.commands import options
from fairlead.errors import FairleadError, UsageError
from fairlead.up import default_nodes, started


@click.command()
@click.option(
    "--cluster",
    "kind",
    type=click.Choice(list(registry.KINDS)),
    default="embedded",
    show_default=True,
    help="Kind of cluster.",
)
@options.name
@click.option("--engine", type=click.Choice(["opa"]), default="opa", show_default=True, help="What decides.")
@options.sidecar
@click.option(
    "--replicas", type=click.IntRange(1, 20), default=1, show_default=True, help="How many OPAs, each with a sidecar."
)
@click.option("--nodes", metavar="N|POOL=N,...", default="1", show_default=True, help="Nodes in each pool.")
@options.settings
@options.output
def command(
    kind: str,
    name: str,
    engine: str,
    sidecar: str | None,
    replicas: int,
    nodes: str,
    settings_file: Path | None,
    output: str,
) -> None:
    """Start a cluster with all that places pods, and print the kubeconfig to use; `fairlead down` ends it."""
    settings = library.load(settings_file)
    wanted = _nodes(nodes, settings)
    cluster = registry.KINDS[kind](name)
    if cluster.running():
        data = status.status(cluster)
        if not data["opa"]:
            raise FairleadError(f"cluster {name!r} is being started by another command: wait for that one")
        out.note(f"cluster {name!r} is running already; nothing was changed")
    else:
        chosen = sidecar or sidecars.SYNC.name
        with (
            out.progress() as progress,
            started(name, settings, wanted, replicas=replicas, sidecar=chosen, progress=progress) as cluster,
        ):
            data = status.status(cluster)
            cluster.detach()  # the last thing that can be interrupted
    out.emit(data, output, lambda _: out.line(f"export KUBECONFIG={shlex.quote(data['kubeconfig'])}"))


def _nodes(text: str, settings: library.Settings) -> dict[str, int]:
    try:
        if "=" not in text:
            return default_nodes(settings, _count(text))
        pairs = [part.split("=", 1) for part in text.split(",")]
        wanted = {pool.strip(): _count(count) for pool, count in pairs}
    except ValueError as error:
        raise UsageError(f"--nodes {text}: a number is expected, or POOL=NUMBER,...") from error
    for pool in wanted:
        if not re.fullmatch(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,58}[a-zA-Z0-9])?", pool):
            raise UsageError(f"--nodes: {pool!r} names no pool: letters, digits, '-', '_' and '.', at most 60 of them")
    return wanted


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= 1000:
        raise UsageError(f"--nodes: from 0 to 1000 in a pool, not {count}")
    return count

"""`fairlead up`: start a local cluster with Fairlead installed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.operations import status, up
from fairlead.settings.access import ANY_ROLE, Access
from fairlead.settings.models import Settings


@click.command()
@options.cluster
@options.new_engine
@options.sidecar
@click.option(
    "--replicas",
    type=click.IntRange(1, 20),
    help="Number of OPAs, each with a sidecar; only embedded.  [default: 1]",
)
@click.option(
    "--nodes",
    metavar="N|POOL=N,...",
    help="Number of nodes in each pool; only embedded.  [default: 1]",
)
@click.option(
    "--no-deploy", is_flag=True, help="Only create the cluster and load the images; only kind."
)
@click.option(
    "--with",
    "further",
    type=click.Choice(["access"]),
    multiple=True,
    help="Switch on a setting that the settings file does not have. With `access`, every role may "
    "be given.",
)
@options.settings
@options.output
def command(
    target: registry.Target,
    engine: str,
    sidecar: str | None,
    replicas: int | None,
    nodes: str | None,
    no_deploy: bool,
    further: tuple[str, ...],
    settings_file: Path | None,
    output: str,
) -> None:
    """Start a local cluster with Fairlead installed, and print the kubeconfig to use. `fairlead
    down` stops it.
    """
    settings = options.load(settings_file)
    if "access" in further and settings.access is None:
        settings = settings.model_copy(update={"access": Access(roles=[ANY_ROLE])})
    match target.kind:
        case "embedded" if not no_deploy:
            counts = _nodes(nodes or "1", settings)
            data = _embedded(target.name, settings, engine, sidecar, replicas or 1, counts)
        case "kind" if replicas is None and nodes is None:
            data = _kind(target.name, settings, engine, sidecar, deployed=not no_deploy)
        case "context":
            raise UsageError(
                "the cluster of a context runs already: run `fairlead deploy` to install Fairlead "
                "in it"
            )
        case kind:
            flag = (
                "--no-deploy" if no_deploy else "--replicas" if replicas is not None else "--nodes"
            )
            raise UsageError(f"{flag} does not apply to a cluster of kind {kind}: leave it out")
    out.emit(
        data, output, lambda _: out.line(f"export KUBECONFIG={shlex.quote(data['kubeconfig'])}")
    )
    flags = registry.flags(target.kind, target.name)
    out.note(f"cluster {target.name} is running: `fairlead down{flags}` removes it")


def _embedded(
    name: str,
    settings: Settings,
    engine: str,
    sidecar: str | None,
    replicas: int,
    nodes: dict[str, int],
) -> dict[str, Any]:
    cluster = EmbeddedCluster(name)
    if cluster.running():
        data = status.status(cluster)
        if not data["deployed"]:
            raise FairleadError(
                f"another command is starting cluster {name!r}: wait until it has finished"
            )
        out.note(f"cluster {name!r} is running already; nothing was changed")
        return data
    with (
        out.progress() as progress,
        up.started(
            name,
            settings,
            nodes,
            engine=engine,
            replicas=replicas,
            sidecar=sidecar,
            progress=progress,
        ) as cluster,
    ):
        data = status.status(cluster)
        cluster.detach()  # last, so that an interrupt before it still stops the cluster
    return data


def _kind(
    name: str, settings: Settings, engine: str, sidecar: str | None, *, deployed: bool
) -> dict[str, Any]:
    with out.progress() as progress:
        cluster, new = up.kind(
            name, settings, engine=engine, sidecar=sidecar, deployed=deployed, progress=progress
        )
    if not new:
        out.note(f"cluster {name!r} is running already")
    return status.status(cluster)


def _nodes(text: str, settings: Settings) -> dict[str, int]:
    try:
        if "=" not in text:
            return up.default_nodes(settings, _count(text))
        pairs = [part.split("=", 1) for part in text.split(",")]
        counts = {pool.strip(): _count(count) for pool, count in pairs}
    except ValueError as error:
        raise UsageError(f"--nodes {text}: a number is expected, or POOL=NUMBER,...") from error
    for pool in counts:
        if not re.fullmatch(r"[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,58}[a-zA-Z0-9])?", pool):
            raise UsageError(
                f"--nodes: {pool!r} is not a pool name: use at most 60 letters, digits, '-', '_' "
                "and '.'"
            )
    return counts


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count <= 1000:
        raise UsageError(f"--nodes: give 0 to 1000 nodes for a pool, not {count}")
    return count

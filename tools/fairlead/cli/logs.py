"""`fairlead logs`: show the logs of the servers."""

from __future__ import annotations

import json
import sys

import click

from fairlead.cli import options
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.operations import decision_logs


@click.command()
@click.argument("server", default="opa")
@options.cluster
@click.option("-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of lines from the end of each log.",
)
@click.option(
    "--id", "uid", metavar="UID", help="Show only the decision with the UID that a refusal names."
)
def command(
    server: str, target: registry.Target, follow: bool, lines: int, uid: str | None
) -> None:
    """Show the log of SERVER: opa, proxy, sidecar, or any other that `fairlead status` lists.

    If there are several pods, the logs of all are shown, and each line begins with the name of its
    server.

    With `decisions` as SERVER, show the decisions in the logs of all servers, one JSON object a
    line.
    """
    cluster = registry.find(target)
    if server == "decisions":
        if follow:
            raise UsageError(
                "decisions cannot be followed: leave out --follow, or follow sidecar or opa"
            )
        entries = decision_logs.decisions(cluster, uid)
        for entry in entries[-lines:] if lines else []:
            click.echo(json.dumps(entry, sort_keys=True))
        return
    if uid:
        raise UsageError("--id is only for decisions: run `fairlead logs decisions --id UID`")
    for text in cluster.logs(server, lines, follow):
        sys.stdout.write(text)
        sys.stdout.flush()

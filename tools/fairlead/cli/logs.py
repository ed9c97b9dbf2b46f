"""`fairlead logs`: what the servers wrote."""

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
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="How many of the last lines, of each.",
)
@click.option(
    "--id", "uid", metavar="UID", help="Of the decisions only that one, as a refusal names it."
)
def command(
    server: str, target: registry.Target, follow: bool, lines: int, uid: str | None
) -> None:
    """Show the log of a SERVER: opa, proxy, sidecar, or any other that `fairlead status` lists.

    Of several pods all are shown, each line after the name of its server, and LINES of each.

    With `decisions` as the SERVER, show the decisions in the logs of all of them, one JSON object a
    line.
    """
    cluster = registry.find(target)
    if server == "decisions":
        if follow:
            raise UsageError(
                "decisions are not followed: leave out --follow, or follow sidecar, or opa"
            )
        entries = decision_logs.decisions(cluster, uid)
        for entry in entries[-lines:] if lines else []:
            click.echo(json.dumps(entry, sort_keys=True))
        return
    if uid:
        raise UsageError("--id names a decision: say `fairlead logs decisions --id UID`")
    for text in cluster.logs(server, lines, follow):
        sys.stdout.write(text)
        sys.stdout.flush()

"""`fairlead logs`: what the servers wrote."""

from __future__ import annotations

import sys

import click

from fairlead.clusters import registry
from fairlead.commands import options


@click.command()
@click.argument("server", default="opa")
@options.cluster
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many of the last lines."
)
def command(server: str, target: registry.Target, follow: bool, lines: int) -> None:
    """Show the log of a SERVER: opa, sidecar (the first of several), or any other that `fairlead status` lists."""
    for text in registry.find(target).logs(server, lines, follow):
        sys.stdout.write(text)
        sys.stdout.flush()

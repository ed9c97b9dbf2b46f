"""`fairlead logs`: what the servers wrote."""

from __future__ import annotations

import sys
import time

import click

from fairlead.clusters import registry
from fairlead.commands import options
from fairlead.errors import UsageError


@click.command()
@click.argument("server", default="opa")
@options.name
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="How many of the last lines."
)
def command(server: str, name: str, follow: bool, lines: int) -> None:
    """Show the log of a SERVER: opa, sidecar (the first of several), or any other that `fairlead status` lists."""
    cluster = registry.find(name)
    path, names = cluster.log(server), list(cluster.servers())
    if path.stem not in names:
        raise UsageError(f"no server {server!r} in cluster {name!r}: one of {', '.join(names)}")
    if not path.exists():
        raise UsageError(f"{path}: there is no log of {server} any more")
    with path.open(encoding="utf-8", errors="replace") as log:
        sys.stdout.writelines(log.readlines()[-lines:] if lines else [])
        while follow:
            text = log.read()
            sys.stdout.write(text)
            sys.stdout.flush()
            if not text:
                time.sleep(0.2)

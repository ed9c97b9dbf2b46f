"""`fairlead down`: end a cluster."""

from __future__ import annotations

import click

from fairlead import output as out
from fairlead.clusters.embedded.placing import EmbeddedCluster
from fairlead.commands import options


@click.command()
@options.name
def command(name: str) -> None:
    """End just what `fairlead up` started, and remove what it left; safe to repeat."""
    ended = EmbeddedCluster(name).down()
    out.note(f"cluster {name!r} is down" if ended else f"no cluster {name!r} is here; nothing to do")

"""`fairlead rotate`: replace OPA's token or certificate."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import rotate

_ROTATIONS = {"token": rotate.token, "cert": rotate.certificate}


@click.command()
@click.argument("what", type=click.Choice(list(_ROTATIONS)))
@options.cluster
@options.output
def command(what: str, target: registry.Target, output: str) -> None:
    """Replace the token, or the certificate and its CA, of OPA's API without a refused request."""
    cluster = registry.find(target)
    with out.progress() as progress:
        result = _ROTATIONS[what](cluster, progress=progress)
    out.emit(result, output, out.rows(None, tuple(result), [result]))

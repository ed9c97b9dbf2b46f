"""`fairlead rotate`: replace a token or the certificate of OPA's API."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.operations import rotate
from fairlead.settings.services import SCOPES

_ROTATIONS = {"token": rotate.token, "cert": rotate.certificate}


@click.command()
@click.argument("what", type=click.Choice(list(_ROTATIONS)))
@click.option(
    "--scope",
    type=click.Choice(list(SCOPES)),
    help="Replace the token of this scope. The one before stays valid until the next rotation.",
)
@click.option(
    "--retire", is_flag=True, help="With --scope: make no new token, and refuse the one before."
)
@options.cluster
@options.output
def command(
    what: str, scope: str | None, retire: bool, target: registry.Target, output: str
) -> None:
    """Replace the token, or the certificate and its CA, of OPA's API without a refused request."""
    if scope and what != "token":
        raise UsageError("--scope is about tokens: run `fairlead rotate token --scope NAME`")
    if retire and not scope:
        raise UsageError("--retire is about the token of a scope: name it with --scope")
    cluster = registry.find(target)
    with out.progress() as progress:
        if scope:
            result = rotate.scoped_token(cluster, scope, retire=retire, progress=progress)
        else:
            result = _ROTATIONS[what](cluster, progress=progress)
    out.emit(result, output, out.rows(None, tuple(result), [result]))

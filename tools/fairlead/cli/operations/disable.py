"""`fairlead disable`: let pods in without OPA, in an emergency."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import disable as library


@click.command()
@click.option("--intent", help="Disable only the webhooks of this intent.  [default: all]")
@click.option("--reason", help="Why, in one line; `fairlead status` shows it.")
@options.cluster
@options.output
def command(intent: str | None, reason: str | None, target: registry.Target, output: str) -> None:
    """Have API servers no longer ask OPA, so that pods are created as they are, wherever they run.

    This is for emergencies. It works while OPA does not answer, because it asks only the API
    server. `fairlead deploy`, `push` and renewals of the certificate leave it so, until `fairlead
    enable`. Meanwhile `fairlead status` shows who disabled it, since when and why, and exits
    with 1.
    """
    show(library.disable(registry.find(target), intent, reason), output, "disabled already")


def show(result: dict[str, Any], output: str, nothing_changed: str) -> None:
    """Print which intents are disabled now."""
    rows = out.rows("disabled", ("intent", "by", "since", "reason"), result["disabled"])
    sentence = "no intent is disabled"
    out.emit(result, output, rows if result["disabled"] else lambda _: out.line(sentence))
    if not result["changed"]:
        out.note(f"nothing changed: {nothing_changed}")
    for warning in result["warnings"]:
        out.warning(warning)

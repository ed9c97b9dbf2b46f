"""`fairlead disable`: let pods in without OPA, in an emergency."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.component_options import duration
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.operations import disable as library


@click.command()
@click.option("--intent", help="Disable only the webhooks of this intent.  [default: all]")
@click.option(
    "-m",
    "--reason",
    "--message",
    "reason",
    help="Why, in one line; required. `fairlead status` and `fairlead history` show it.",
)
@click.option(
    "--for",
    "length",
    metavar="DURATION",
    callback=duration,
    help="Enable again by itself after this time, such as 30m or 2h.  [default: never]",
)
@options.cluster
@options.output
def command(
    intent: str | None,
    reason: str | None,
    length: timedelta | None,
    target: registry.Target,
    output: str,
) -> None:
    """Have API servers no longer ask OPA, so that pods are created as they are, wherever they run.

    This is for emergencies. It works while OPA does not answer, because it asks only the API
    server. `fairlead deploy`, `push` and renewals of the certificate leave it so, until `fairlead
    enable`, or until the time of --for is over. Meanwhile `fairlead status` shows who disabled it,
    since when, until when and why, and exits with 1; `fairlead history` keeps it. If it is
    disabled already, it gets the new reason and the new end.
    """
    if reason is None:
        raise UsageError('say why: fairlead disable --reason "OPA hangs, #4711"')
    result = library.disable(registry.find(target), intent, reason, length)
    show(result, output, "disabled already, for this reason and until this time")
    for record in result["updated"]:
        since = f" since {record['since']}" if record["since"] else ""
        by = f" by {record['by']}" if record["by"] else ""
        before = f" ({record['reason']})" if record["reason"] else ""
        until = f", until {record['until']}" if record["until"] else ""
        out.note(
            f"{record['intent']} was disabled already{since}{by}{before}{until}: its reason and "
            "its end are now those of this command; `fairlead history` has both"
        )


def show(result: dict[str, Any], output: str, nothing_changed: str) -> None:
    """Print which intents are disabled now."""
    columns = ("intent", "by", "since", "until", "reason")
    rows = out.rows("disabled", columns, result["disabled"])
    sentence = "no intent is disabled"
    out.emit(result, output, rows if result["disabled"] else lambda _: out.line(sentence))
    if not result["changed"] and not result.get("updated"):
        out.note(f"nothing changed: {nothing_changed}")
    for warning in result["warnings"]:
        out.warning(warning)

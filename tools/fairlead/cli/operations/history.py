"""`fairlead history`: list what was in force, and compare two entries."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.text import Text

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common import texts
from fairlead.deployment.history_log import EXCEPTION
from fairlead.operations import history, history_diff

_COLUMNS = ("number", "time", "by", "action", "revision", "changed", "message")


@click.command()
@click.option(
    "--diff",
    "compared",
    nargs=2,
    metavar="A B",
    help="Show what differs between two entries, by numbers or first digits of revisions.",
)
@options.cluster
@options.output
def command(compared: tuple[str, str] | None, target: registry.Target, output: str) -> None:
    """List the pushes, rollbacks and deployments, the latest first, who disabled intents and
    enabled them again, and which exceptions ended.

    The entry in force has a * after its number. `fairlead rollback NUMBER` brings the policies of
    an entry back.
    """
    cluster = registry.find(target)
    if compared:
        result = history_diff.differences(cluster, *compared)
        out.emit(result, output, lambda console: _draw(result, console))
        for sentence in result["missing"]:
            out.warning(sentence)
        return
    lines = history.table(cluster)
    rows = [
        {**line, "number": _number(line), "changed": _changed(line), "message": _message(line)}
        for line in lines
    ]
    out.emit(lines, output, out.rows(None, _COLUMNS, rows))


def _number(line: dict[str, Any]) -> str:
    return f"{line['number']} *" if line["current"] else str(line["number"])


def _message(line: dict[str, Any]) -> str | None:
    """The message, with the end of what is disabled for a time."""
    message: str | None = line["message"]
    ends = line["until"] and line["action"] != EXCEPTION
    return f"until {line['until']}: {message}" if ends else message


def _changed(line: dict[str, Any]) -> str | None:
    if line["intents"]:
        return ", ".join(line["intents"])
    return None if line["changed"] is None else ", ".join(line["changed"]) or "nothing"


def _draw(result: dict[str, Any], console: Console) -> None:
    """Print the differences as unified diffs, with colours on a terminal."""
    diffs = [policy["diff"] for policy in result["policies"] or ()]
    if result["settings"]:
        diffs.append(history_diff.settings_diff(result))
    for line in "\n".join(diffs).splitlines():
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        console.print(Text(texts.printable(line, keep="\t"), style), soft_wrap=True)
    if not diffs and not result["missing"]:
        out.line(f"no difference between {result['from']} and {result['to']}")

"""`fairlead policies`: list the policies that OPA loads."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.operations import bundle_following, policy_list

_COLUMNS = (
    "kind",
    "name",
    "status",
    "package",
    "installed",
    "revision",
    "decided",
    "error",
)


@click.command()
@options.cluster
@options.output
def command(target: registry.Target, output: str) -> None:
    """List the policies that OPA loads: ConfigMaps and Policies, each with its status; and the
    ConfigMaps of data that it rejects.

    Exit code: 1 if OPA rejects a policy or data, or if a Policy has a mistake.
    """
    objects = registry.find(target).objects()
    rows = policy_list.listed(objects)
    filled = [column for column in _COLUMNS if any(row[column] is not None for row in rows)]
    columns = filled or _COLUMNS[:3]
    column_styles = {"error": "red"} if "error" in columns else {}
    out.emit(rows, output, out.rows(None, columns, rows, column_styles))
    if url := bundle_following.followed(objects):
        out.note(f"not listed: the policies in the signed bundles of {url}")
    if any(row["status"] == "error" for row in rows):
        raise SystemExit(1)

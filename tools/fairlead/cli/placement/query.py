"""`fairlead query`: answers questions about where applications and pods run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.placement import csv_rows
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.inputs import manifest_files
from fairlead.placement import decisions, object_trees, queries
from fairlead.placement.queries import Query


@click.command()
@click.argument("query_name", metavar="[NAME]", required=False)
@click.option("--list", "listing", is_flag=True, help="List the queries and their arguments.")
@click.option(
    "--arg",
    "arguments",
    metavar="NAME=VALUE",
    multiple=True,
    help="An argument of the query; repeatable.",
)
@options.manifest_flag("paths")
@click.option(
    "--member",
    "members",
    metavar="CLUSTER=FILE|FOLDER",
    multiple=True,
    help="The objects of a member cluster, as `kubectl get -A -o json` prints them; repeatable.",
)
@click.option(
    "--live",
    is_flag=True,
    help="Read the objects of the cluster that the next options choose.",
)
@options.cluster
@options.placement_data
@options.settings
@options.policies
@options.output_in("table", "json", "csv")
def command(
    query_name: str | None,
    listing: bool,
    arguments: tuple[str, ...],
    paths: tuple[Path, ...],
    members: tuple[str, ...],
    live: bool,
    target: registry.Target,
    data_sources: tuple[str, ...],
    settings_file: Path | None,
    policies_folder: Path | None,
    output: str,
) -> int:
    """Answer a question about where applications and pods run: `fairlead query NAME --arg k=v`.

    Objects come from manifests (-f), from a cluster (--live), and from files that were dumped from
    member clusters (--member). OPA answers, by the queries in policies/visibility. Nothing is
    changed.

    See docs/visibility.md. Exit code: 0 for any answer, 2 if the question or a file has a mistake.
    """
    policies = queries.policies(options.load(settings_file), policies_folder)
    available = queries.known(policies)
    if listing:
        if query_name:
            raise UsageError("--list takes no name: leave out one of them")
        _emit_list(available, output)
        return 0
    if query_name is None:
        raise UsageError("which query? `fairlead query --list` shows all")
    query = queries.named(query_name, available)
    document = query.input(arguments)
    if not (paths or members or live):
        raise UsageError("nothing to look at: give -f FILE, --member CLUSTER=FILE or --live")
    if paths and live:
        raise UsageError("-f and --live both say what the host cluster has: give one of them")
    documents = manifest_files.read(paths).all_readable()
    with out.progress() as progress:
        data = (
            decisions.opa_data(data_sources, documents, progress=progress)
            if query.about_placement
            else None
        )
        inventory: dict[str, Any] = object_trees.of_members(members)
        if live:
            inventory[""] = object_trees.of_cluster(
                registry.find(target), about_placement=query.about_placement, progress=progress
            )
        elif documents:
            inventory[""] = object_trees.of_documents(documents)
        answer = queries.ask(
            query,
            document,
            policies=policies,
            inventory=inventory,
            placement=data and data["placement"],
            progress=progress,
        )
    for note in answer.notes:
        out.note(f"note: {note}")
    _emit(query.columns, answer.rows, output)
    return 0


def _emit(columns: Sequence[str], lines: Sequence[Any], output: str) -> None:
    if output == "csv":
        csv_rows.emit(columns, lines)
    else:
        cells = [{column: _cell(line[column]) for column in columns} for line in lines]
        out.emit(list(lines), output, out.rows(None, columns, cells))


def _cell(value: Any) -> Any:
    """A list as one text; None if it is empty."""
    return (", ".join(value) or None) if isinstance(value, list) else value


def _emit_list(queries: Sequence[Query], output: str) -> None:
    if output == "json":
        lines: list[dict[str, Any]] = [
            {
                "name": query.name,
                "title": query.title,
                "description": query.description,
                "arguments": [
                    {
                        "name": argument.name,
                        "type": argument.type,
                        "required": argument.required,
                        "description": argument.description,
                    }
                    for argument in query.arguments
                ],
                "columns": list(query.columns),
            }
            for query in queries
        ]
        out.emit(lines, output, out.rows(None, (), ()))
        return
    lines = [
        {"name": query.name, "arguments": query.usage, "title": query.title} for query in queries
    ]
    _emit(("name", "arguments", "title"), lines, output)

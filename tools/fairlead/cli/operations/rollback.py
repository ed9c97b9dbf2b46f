"""`fairlead rollback`: go back to an earlier revision of the policies."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.operations.push import show
from fairlead.clusters import registry
from fairlead.operations import rollback as library


@click.command()
@click.argument("entry", required=False)
@options.cluster
@options.message
@options.output
def command(entry: str | None, target: registry.Target, message: str | None, output: str) -> None:
    """Go back to the policies of ENTRY; without ENTRY, to the last revision that differs from the
    present one.

    ENTRY is a number that `fairlead history` lists, or the first digits of a revision. The settings
    nodeLabel, podSelector and contact come back with the policies. All other settings stay as they
    are. If the old policies need another value of one of them (such as pools), nothing is changed,
    and the error says what to write into fairlead.yaml.
    """
    cluster = registry.find(target)
    with out.progress() as progress:
        result = library.rollback(cluster, entry, message=message, progress=progress)
    show(result, output)
    out.note(_sentence(result))
    if result["missing"]:
        settings = library.shown(result["missing"])
        out.warning(f"settings that only a deployment can apply stay: {settings}")
        out.note(result["wayBack"])


def _sentence(result: dict[str, object]) -> str:
    origin = result["from"] or "policies that no entry of the history brought"
    verb = {"back": "went back", "forward": "went forward"}.get(str(result["direction"]), "went")
    return f"{verb} from {origin} to {result['to']}"

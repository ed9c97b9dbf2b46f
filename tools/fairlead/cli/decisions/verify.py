"""`fairlead verify`: run the conformance cases on each engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fairlead import verification
from fairlead.checks import laboratory
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters.registry import Target
from fairlead.common import paths, texts
from fairlead.policy import cases as library
from fairlead.policy import placement_cases
from fairlead.verification import junit, placements, verify
from fairlead.verification.verify import Result

_NAMES = tuple(dict.fromkeys((*verification.ENGINES, *verification.LABORATORY)))
_COLUMNS = ("case", "intent", "engine", "passed", "detail")
_LABELS = 12
"""Characters of the column with the labels of a failed case."""


class _Command(click.Command):
    """Keeps its arguments, which the laboratory may get."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = list(args)
        return super().parse_args(ctx, args)


@click.command(cls=_Command)
@click.option(
    "--cases",
    "path",
    type=click.Path(path_type=Path),
    help="A file or folder of cases.  [default: those of all policies in force]",
)
@click.option(
    "--engine",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"One of {', '.join(_NAMES)}.  [default: all]",
)
@options.policies
@options.cluster
@options.settings
@options.output_in(*out.FORMATS, "junit")
@click.pass_obj
def command(
    arguments: list[str],
    path: Path | None,
    names: tuple[str, ...],
    policies_folder: Path | None,
    target: Target,
    settings_file: Path | None,
    output: str,
) -> int:
    """Run every conformance case on every engine, or on those named, each in its own real program.

    Of the settings, only the policies' folders and which intents are in force matter; all others
    come from the cases. Engines but opa and python ask a real API server, and need a checkout of
    Fairlead, whose laboratory starts an embedded cluster. With --cluster kind or context, webhook
    uses that cluster, and changes its settings until you run `fairlead deploy` again.

    Exit code: 0 if all cases passed, 1 if one failed, 2 if a case or a policy cannot be read. A
    case that an engine cannot express is listed as such. A case that failed is shown with what it
    expects, what the engine answered, and the difference of the objects.
    """
    needed = {*(names or _NAMES)}.intersection(verification.LABORATORY)
    if needed - verification.ENGINES.keys() and laboratory.present():
        return laboratory.run("verify", *arguments)
    policies = options.load_examples(settings_file, policies_folder)
    loaded = verification.load(names, policies, None if target.kind == "embedded" else target)
    cases = library.load(path, policies)
    library.require_known(cases, policies)
    of_placement = placement_cases.load(path, policies.folders[0])
    with out.progress() as progress:
        results = verify.verify(cases, loaded, progress) if cases else []
        results += placements.verify(of_placement, loaded, progress)
    if output == "junit":
        out.line(junit.document(results))
    else:
        lines = [{column: getattr(result, column) for column in _COLUMNS} for result in results]
        out.emit(lines, output, lambda console: _draw(console, results, lines))
    return int(any(result.passed is False for result in results))


def _draw(console: Console, results: Sequence[Result], lines: Sequence[Mapping[str, Any]]) -> None:
    # What differs is below the table, where it has the whole width.
    short = [
        {**line, "detail": "" if line["passed"] is False else line["detail"]} for line in lines
    ]
    out.rows(None, _COLUMNS, short)(console)
    for result in results:
        if result.passed is False:
            _draw_failure(console, result)
    console.print(f"\n{_summary(results)}")


def _draw_failure(console: Console, result: Result) -> None:
    source = result.source
    location = f"{paths.shown(source.path)}:{source.line}"
    console.print(f"\n{texts.printable(result.case)}", style="bold", soft_wrap=True)
    head = [("failed", f"{result.intent} on {result.engine}"), ("case", location)]
    out.fields(console, [*head, *result.fields], _LABELS)
    if result.diff:
        difference = texts.printable(result.diff, keep="\n\t")
        console.print(f"\n{difference}", soft_wrap=True)


def _summary(results: Sequence[Result]) -> str:
    counts = [(sum(result.passed is passed for result in results), word) for passed, word in _WORDS]
    return f"{texts.counted(len(results), 'result')}: " + ", ".join(
        f"{count} {word}" for count, word in counts if count
    )


_WORDS = ((True, "passed"), (False, "failed"), (None, "not expressible"))

"""`fairlead verify`: run the conformance cases on each engine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from fairlead.checks.conformance import cases as library
from fairlead.checks.conformance import engines, verify
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters.registry import Target


@click.command()
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
    help=f"One of {', '.join(engines.ENGINES)}.  [default: all]",
)
@options.cluster
@options.settings
@options.output
def command(
    path: Path | None,
    names: tuple[str, ...],
    target: Target,
    settings_file: Path | None,
    output: str,
) -> int:
    """Run every conformance case on every engine, or on those named, each in its own real program.

    Of the settings, only the policies' folders and which intents are in force matter; all others
    come from the cases. Engines that need a cluster start an embedded one. With --cluster kind or
    context they use that cluster, and change its settings until you run `fairlead deploy` again.

    Exit code: 0 if all cases passed, 1 if one failed. A case that an engine cannot express is
    listed as such.
    """
    chosen = engines.load(names, None if target.kind == "embedded" else target)
    cases = library.load(path, options.load(settings_file))
    with out.progress() as progress:
        results = verify.verify(cases, chosen, progress)
    lines = [asdict(result) for result in results]
    table = out.rows(None, ("case", "intent", "engine", "passed", "detail"), lines)

    def draw(console: Console) -> None:
        table(console)
        console.print(f"\n{_summary(results)}")

    out.emit(lines, output, draw)
    return int(any(result.passed is False for result in results))


def _summary(results: list[verify.Result]) -> str:
    counts = [(sum(result.passed is passed for result in results), word) for passed, word in _WORDS]
    return f"{len(results)} result{'' if len(results) == 1 else 's'}: " + ", ".join(
        f"{count} {word}" for count, word in counts if count
    )


_WORDS = ((True, "passed"), (False, "failed"), (None, "not expressible"))

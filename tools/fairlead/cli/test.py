"""`fairlead test`: check and test a folder of policies, or the whole checkout."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from fairlead.checks import checkout
from fairlead.checks import policies as library
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common.errors import UsageError


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--step",
    "steps",
    multiple=True,
    help="Run only this step, such as 'opa test' or pytest; may be repeated.",
)
@click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Check only this folder of policies, together with those in force: their types, their "
    "tests, their format and their cases.",
)
@click.option(
    "--all",
    "laboratory",
    is_flag=True,
    help="Run the tests of the laboratory, too: fuzz, chaos, benchmarks, all conformance cases on "
    "real API servers, and what builds programs or images.",
)
@options.settings
@options.output
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    steps: tuple[str, ...],
    policies_folder: Path | None,
    laboratory: bool,
    settings_file: Path | None,
    output: str,
    pytest_arguments: tuple[str, ...],
) -> None:
    """Check, lint and test policies and code, on a real OPA and a real API server.

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails.
    """
    if policies_folder is None:
        ran = checkout.run(steps, pytest_arguments, laboratory=laboratory, progress=out.plain())
    elif steps or pytest_arguments or laboratory:
        raise UsageError(
            "--policies has steps of its own: leave out --step, --all and pytest's arguments"
        )
    else:
        settings = options.load(settings_file)
        ran = library.run(settings, policies_folder, progress=out.plain())
    results = [asdict(result) for result in ran]
    out.emit(results, output, out.rows(None, ("step", "passed", "seconds", "detail"), results))
    if not all(result["passed"] for result in results):
        raise SystemExit(1)

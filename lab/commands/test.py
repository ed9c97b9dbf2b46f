"""`python -m lab test`: check and test the checkout; it is what `fairlead test` runs there."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from lab import checkout


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--step",
    "steps",
    multiple=True,
    help="Run only this step, such as 'opa test' or pytest; may be repeated.",
)
@click.option(
    "--all",
    "laboratory",
    is_flag=True,
    help="Run the tests with the mark `lab`, too: fuzz, chaos, benchmarks, all conformance cases "
    "on real API servers, and what builds programs or images.",
)
@options.output
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    steps: tuple[str, ...], laboratory: bool, output: str, pytest_arguments: tuple[str, ...]
) -> int:
    """Check, lint and test policies and code, on a real OPA and a real API server.

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails, 2 if a policy
    cannot be read or compiled.
    """
    results = list(
        checkout.run(steps, pytest_arguments, laboratory=laboratory, progress=out.plain())
    )
    rows = [result.row for result in results]
    out.emit(rows, output, out.rows(None, ("step", "passed", "seconds", "detail"), rows))
    return max(result.code for result in results)

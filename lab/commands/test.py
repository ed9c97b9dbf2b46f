"""`python -m lab test`: check and test the checkout; it is what `fairlead test` runs there."""

from __future__ import annotations

from dataclasses import asdict

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

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails.
    """
    ran = checkout.run(steps, pytest_arguments, laboratory=laboratory, progress=out.plain())
    results = [asdict(result) for result in ran]
    out.emit(results, output, out.rows(None, ("step", "passed", "seconds", "detail"), results))
    return int(not all(result["passed"] for result in results))

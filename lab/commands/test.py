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
@options.output
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(steps: tuple[str, ...], output: str, pytest_arguments: tuple[str, ...]) -> int:
    """Check, lint and test policies and code, on a real OPA and a real API server.

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails.
    """
    results = [
        asdict(result) for result in checkout.run(steps, pytest_arguments, progress=out.plain())
    ]
    out.emit(results, output, out.rows(None, ("step", "passed", "seconds", "detail"), results))
    return int(not all(result["passed"] for result in results))

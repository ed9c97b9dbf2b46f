"""`fairlead test`: check and test a folder of policies, or the whole checkout."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.checks import laboratory, policies
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
@options.settings
@options.output
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(
    steps: tuple[str, ...],
    policies_folder: Path | None,
    settings_file: Path | None,
    output: str,
    pytest_arguments: tuple[str, ...],
) -> int:
    """Check and test policies. In a checkout of Fairlead without --policies: check, lint and test
    everything, on a real OPA and a real API server.

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails, 2 if a policy
    cannot be read or compiled.
    """
    if policies_folder is None:
        if not laboratory.present():
            raise UsageError("name the folder of your policies: fairlead test --policies FOLDER")
        arguments = [argument for step in steps for argument in ("--step", step)]
        return laboratory.run("test", *arguments, "--output", output, "--", *pytest_arguments)
    if steps or pytest_arguments:
        raise UsageError("--policies has steps of its own: leave out --step and pytest's arguments")
    loaded = options.load_examples(settings_file, policies_folder)
    results = list(policies.run(loaded, progress=out.plain()))
    rows = [result.row for result in results]
    out.emit(rows, output, out.rows(None, ("step", "passed", "seconds", "detail"), rows))
    return max(result.code for result in results)

"""`fairlead test`: check and test a folder of policies, or the whole checkout."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.checks import laboratory, policies
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.policy import fairlead_yaml


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
    """Check and test policies: those of --policies, or else those that the settings name. With the
    settings of a checkout of Fairlead, or without any: check, lint and test that checkout, on a
    real OPA and a real API server.

    PYTEST_ARGUMENTS go to pytest unchanged. Exit code: 1 if a step fails, 2 if a policy
    cannot be read or compiled.
    """
    own = policies_folder is not None or _is_own(settings_file)
    if not own and laboratory.present():
        arguments = [argument for step in steps for argument in ("--step", step)]
        return laboratory.run("test", *arguments, "--output", output, "--", *pytest_arguments)
    loaded = options.load_examples(settings_file, policies_folder)
    if policies_folder is None and not loaded.settings.policies:
        raise UsageError(
            "the settings name no folder of policies: run this where your fairlead.yaml is, or "
            "name the folder: fairlead test --policies FOLDER"
        )
    if steps or pytest_arguments:
        raise UsageError(
            "policies of your own have steps of their own: leave out --step and pytest's arguments"
        )
    with out.progress() as progress:
        results = list(policies.run(loaded, progress=progress))
    rows = [result.row for result in results]
    out.emit(rows, output, out.rows(None, ("step", "passed", "seconds", "detail"), rows))
    return max(result.code for result in results)


def _is_own(settings_file: Path | None) -> bool:
    """Whether the settings file in force is a user's own: that of the checkout is for those who
    develop Fairlead.
    """
    file = fairlead_yaml.find(settings_file)
    return file is not None and (settings_file is not None or file.resolve().parent != paths.root())

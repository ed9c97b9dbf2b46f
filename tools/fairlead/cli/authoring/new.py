"""`fairlead new`: add a policy to the folder of policies that the settings name, or to the
project."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import paths
from fairlead.policy import new_policy, policy_files


@click.group()
def command() -> None:
    """Create something new."""


@command.command()
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of policies.  [default: the first of the settings' policies]",
)
@options.settings
@options.output
def policy(name: str, folder: Path | None, settings_file: Path | None, output: str) -> None:
    """Write the policy NAME: a folder with its Rego, a test and cases.

    NAME is the intent, in lower-case words joined by '-'. Then replace the example. The folder
    is by default the first of `policies` in fairlead.yaml; without one, Fairlead's own, which is
    for contributors.
    """
    settings = options.load(settings_file)
    first = next(map(Path, settings.policies), policy_files.builtin())
    target = folder or first
    files = [Path(paths.shown(path)) for path in new_policy.policy(name, target)]
    out.files(files, output)
    if target == policy_files.builtin():
        checks = "`make generate` and `make test`"
    else:
        checks = f"`fairlead test --policies {paths.shown(target)}`"
    out.note(f"next: replace the example, then run {checks}")


@command.command("intent-file")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@options.output
def intent_files(folder: Path, output: str) -> None:
    """Move what METADATA say of intents into intent.yaml, for policies of earlier versions.

    FOLDER is a policy, or a folder of policies. `custom` in the METADATA of the Rego becomes an
    intent.yaml beside it, with references, `when` and `unless` in place of Jinja2 expressions. An
    expression that has no such form stays as it is: `fairlead test` names it, and you replace it.
    """
    out.files([Path(paths.shown(path)) for path in new_policy.intent_files(folder)], output)
    out.note("next: fairlead test --policies FOLDER_OF_POLICIES")

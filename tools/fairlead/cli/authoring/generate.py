"""`fairlead generate`: write the files that are made from policies' facts and cases."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import atomic_files
from fairlead.policy import generated, policy_files
from fairlead.policy.policy_set import PolicySet


@click.command()
@click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="The folder of policies.  [default: those of the settings, or else the project's]",
)
@options.settings
@options.output
def command(policies_folder: Path | None, settings_file: Path | None, output: str) -> None:
    """Write README.md into the folder of each policy: its page, from its facts and cases.

    An intent.schema.json there, by which editors check intent.yaml, is made again. Of the project's
    own policies, also the table of the intents, the bundle's manifest, the defaults of parameters
    and the list in docs/policies.md. A README.md that does not begin with "Made by" is left as it
    is. `fairlead test` fails if a file is out of date.
    """
    settings = options.load(settings_file)
    settings_folders = [Path(folder) for folder in settings.policies] or [policy_files.builtin()]
    folders = settings_folders if policies_folder is None else [policies_folder]
    policies = PolicySet.examples(settings, policies_folder)
    outdated = generated.outdated(generated.texts(policies, folders))
    atomic_files.write_all(outdated)
    out.files(list(outdated), output)

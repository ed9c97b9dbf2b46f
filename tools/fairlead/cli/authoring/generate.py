"""`fairlead generate`: write the files that are made from policies' facts and cases."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import atomic_files
from fairlead.opa import bundle_files
from fairlead.policy import generated


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

    An intent.schema.json there, by which editors check intent.yaml, is made again. A README.md that
    does not begin with "Made by" is left as it is. `fairlead test` fails if a file is out of date.
    """
    policies = options.load_examples(settings_file, policies_folder)
    with out.progress() as progress:
        bundle_files.check(policies.modules, progress)
    settings_folders = policies.folders[1:] or policies.folders
    folders = settings_folders if policies_folder is None else [policies_folder]
    outdated = generated.outdated(generated.texts(policies, folders))
    atomic_files.write_all(outdated)
    out.files(list(outdated), output)

"""`fairlead init`: start a repository of policies."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.policy import new_policy


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option(
    "--policy", "intent", default="forbidden-label", show_default=True, help="The first policy."
)
@options.output
def command(folder: Path, intent: str, output: str) -> None:
    """Start a repository of policies in FOLDER, by default the working directory.

    It gets settings, a policy with its test and cases, a workflow for CI, and a README.
    """
    out.files(new_policy.repository(folder, intent), output)
    into = "" if folder == Path() else f"cd {folder}; "
    out.note(f"next: {into}fairlead test; fairlead up")

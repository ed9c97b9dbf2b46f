"""`fairlead settings`: show the settings in force."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from fairlead.cli import options
from fairlead.cli import output as out


@click.command()
@options.settings
@options.output
def command(settings_file: Path | None, output: str) -> None:
    """Show the settings in force: those of the file, and the defaults of all others."""
    document = options.load(settings_file).complete().document()
    out.emit(
        document,
        output,
        lambda console: console.print(
            yaml.safe_dump(document, sort_keys=False).rstrip(), soft_wrap=True
        ),
    )

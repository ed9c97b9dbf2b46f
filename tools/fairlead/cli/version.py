"""`fairlead version`: show the version of Fairlead and of the programs that it runs."""

from __future__ import annotations

import platform

import click

from fairlead import __version__
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.programs import toolchain


@click.command()
@options.output
def command(output: str) -> None:
    """Show the version of Fairlead, of Python, and of each program that Fairlead runs."""
    versions = {
        "fairlead": __version__,
        "python": platform.python_version(),
        **{state.name: state.version for state in toolchain.states(toolchain.NAMES)},
    }
    lines = [{"program": name, "version": version} for name, version in versions.items()]
    out.emit(versions, output, out.rows(None, ("program", "version"), lines))

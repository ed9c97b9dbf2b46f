"""`fairlead tools`: list the programs that Fairlead runs, and build them."""

from __future__ import annotations

from dataclasses import asdict

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common.errors import UsageError
from fairlead.programs import toolchain


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--path",
    metavar="NAME",
    help="Print only the path of this program; build it first if necessary.",
)
@click.option(
    "--build",
    is_flag=True,
    help="Build the missing programs now: all of them, or those named.",
)
@options.output
def command(names: tuple[str, ...], path: str | None, build: bool, output: str) -> None:
    """List the programs that Fairlead runs (all, or those named): version, source, state and path.

    If PATH has a program of exactly the pinned version, Fairlead uses that. Otherwise it builds the
    program once, when a command first needs it, into the user's cache folder (XDG_CACHE_HOME).
    """
    if path is not None:
        if names or build:
            raise UsageError("--path takes one program: leave out --build and other names")
        with out.progress() as progress:
            programs = toolchain.ensure([path], progress)
        out.line(str(programs[path]))
        return
    if build:
        with out.progress() as progress:
            toolchain.ensure(names or toolchain.NAMES, progress)
    lines = [asdict(state) for state in toolchain.states(names or toolchain.NAMES)]
    out.emit(lines, output, out.rows(None, ("name", "version", "source", "state", "path"), lines))

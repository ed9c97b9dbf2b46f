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
@click.option(
    "--outdated",
    is_flag=True,
    help="List the pins that are older than the newest in their registry: the Go modules of the "
    "programs, and the Python packages. Exit code 1 if one could be newer.",
)
@options.output
def command(
    names: tuple[str, ...], path: str | None, build: bool, outdated: bool, output: str
) -> int:
    """List the programs that Fairlead runs (all, or those named): version, source, state and path.

    If PATH has a program of exactly the pinned version, Fairlead uses that. Otherwise it builds the
    program once, when a command first needs it, into the user's cache folder (XDG_CACHE_HOME).
    """
    if outdated:
        if names or build or path is not None:
            raise UsageError("--outdated is about all pins: leave out names, --build and --path")
        return _outdated(output)
    if path is not None:
        if names or build:
            raise UsageError("--path takes one program: leave out --build and other names")
        with out.progress() as progress:
            programs = toolchain.ensure([path], progress)
        out.line(str(programs[path]))
        return 0
    if build:
        with out.progress() as progress:
            toolchain.ensure(names or toolchain.NAMES, progress)
    lines = [asdict(state) for state in toolchain.states(names or toolchain.NAMES)]
    out.emit(lines, output, out.rows(None, ("name", "version", "source", "state", "path"), lines))
    return 0


def _outdated(output: str) -> int:
    with out.progress() as progress:
        pins = toolchain.older(progress)
    lines = [asdict(pin) for pin in pins]
    table = out.rows(None, ("name", "kind", "pinned", "newest", "held"), lines)
    sentence = "every pin is the newest of its registry"
    out.emit(lines, output, table if lines else lambda _: out.line(sentence))
    return int(any(pin.held is None for pin in pins))

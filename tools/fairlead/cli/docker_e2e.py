"""`fairlead docker-e2e`: the end-to-end run in a container."""

from __future__ import annotations

import click

from fairlead.checks import docker_e2e as library
from fairlead.cli import output as out


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT]...")
def command(arguments: tuple[str, ...]) -> int:
    """Build the devcontainer's image from this checkout and run `fairlead e2e` in it, with
    ARGUMENTS if any.

    FAIRLEAD_CLUSTER=kind (the default) makes a cluster of KIND in the same Docker engine, embedded
    one within the container. BASE_IMAGE, DEVCONTAINER_IMAGE, DOCKER_BUILD_NETWORK and the variables
    of `fairlead e2e` are handed on. What a failed run collected is then in build/e2e-logs. The exit
    code is that of the run.
    """
    return library.run(arguments, progress=out.plain())

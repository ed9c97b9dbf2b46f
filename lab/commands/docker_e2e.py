"""`python -m lab docker-e2e`: run the end-to-end tests in a container."""

from __future__ import annotations

import click

from fairlead.cli import output as out
from lab import docker_e2e as library


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT]...")
def command(arguments: tuple[str, ...]) -> int:
    """Build the devcontainer's image from this checkout and run the end-to-end tests in it, with
    these ARGUMENTS of `python -m lab e2e`.

    FAIRLEAD_CLUSTER=kind (the default) creates a KIND cluster in the same Docker engine; embedded
    creates one inside of the container. BASE_IMAGE, DEVCONTAINER_IMAGE, DOCKER_BUILD_NETWORK and
    what names images (`make help`) are passed on. A failed run leaves its logs in build/e2e-logs.
    The exit code is that of the tests.
    """
    return library.run(arguments, progress=out.plain())

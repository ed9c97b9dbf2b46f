"""`fairlead e2e`: the integration tests, on a cluster of any kind."""

from __future__ import annotations

import click

from fairlead.checks import e2e as library
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters.registry import Target


@click.command(context_settings={"ignore_unknown_options": True})
@options.cluster
@options.sidecar
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(target: Target, sidecar: str | None, pytest_arguments: tuple[str, ...]) -> int:
    """Run the integration tests on a cluster: an embedded one, a KIND cluster made for it and
    removed, or a context's.

    Tests change the policies and labels of the cluster: name no context of a cluster that anybody
    needs. What fails leaves logs and events in build/e2e-logs. PYTEST_ARGUMENTS go to pytest as
    they are. Exit code 1 when a test fails.
    """
    return int(not library.run(target, pytest_arguments, sidecar=sidecar, progress=out.plain()))

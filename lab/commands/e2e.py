"""`python -m lab e2e`: run the integration tests on a cluster of any kind."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters.registry import Target
from lab import e2e as library


@click.command(context_settings={"ignore_unknown_options": True})
@options.cluster
@options.sidecar
@click.argument("pytest_arguments", nargs=-1, type=click.UNPROCESSED)
def command(target: Target, sidecar: str | None, pytest_arguments: tuple[str, ...]) -> int:
    """Run the integration tests on a cluster: an embedded one, a temporary KIND cluster, or that of
    a context.

    The tests change the policies and labels of the cluster, so never use a cluster that anybody
    needs. Failed tests leave logs and events in build/e2e-logs. PYTEST_ARGUMENTS go to pytest
    unchanged. Exit code: 1 if a test fails.
    """
    return int(not library.run(target, pytest_arguments, sidecar=sidecar, progress=out.plain()))

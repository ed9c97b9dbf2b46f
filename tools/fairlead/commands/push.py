"""`fairlead push`: bring changed policies into force."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead import output as out
from fairlead import push as library
from fairlead import settings as settings_library
from fairlead.clusters import registry
from fairlead.commands import options


@click.command()
@options.name
@options.settings
@options.policies
@options.output
def command(name: str, settings_file: Path | None, policies_folder: Path | None, output: str) -> None:
    """Check and test the policies, push them, and return when every OPA serves exactly this revision.

    A policy that does not compile or fails its tests changes nothing; where an OPA does not take the new revision, the
    old one is put back.
    """
    settings = settings_library.load(settings_file)
    cluster = registry.find(name)
    with out.progress() as progress:
        result = library.push(cluster, settings, policies_folder, progress=progress)
    out.emit(result, output, out.rows(f"revision {result['revision']}", ("url", "revision"), result["opa"]))

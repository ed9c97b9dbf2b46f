"""`fairlead deploy`: bring a cluster to what the settings say."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead import deploy as library
from fairlead import manifests
from fairlead import output as out
from fairlead import settings as settings_library
from fairlead.clusters import registry
from fairlead.commands import options


@click.command()
@options.name
@options.settings
@options.policies
@options.sidecar
@click.option("--dry-run", is_flag=True, help="Print the manifests, for a cluster that reaches OPA by its Service.")
@options.output
def command(
    name: str,
    settings_file: Path | None,
    policies_folder: Path | None,
    sidecar: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Deploy OPA, its sidecar, the policies and the webhook into a running cluster; safe to repeat."""
    settings = settings_library.load(settings_file)
    if dry_run:
        out.note("the Secrets hold a token and a certificate made for this output alone")
        with out.progress() as progress:
            rendered = library.preview(settings, policies_folder, sidecar=sidecar, progress=progress)
        out.emit(rendered, output, lambda _: out.line(manifests.dump(rendered).rstrip()))
        return
    cluster = registry.find(name)
    with out.progress() as progress:
        states = library.deploy(cluster, settings, policies_folder, sidecar=sidecar, progress=progress)
    rows = [{"url": s.opa.url, "ready": s.ready, "revision": s.revision} for s in states]
    out.emit(rows, output, out.rows(None, ("url", "ready", "revision"), rows))

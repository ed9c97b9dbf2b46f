"""`fairlead deploy`: deploy Fairlead into a cluster, as the settings say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests, render
from fairlead.operations import deploy as library
from fairlead.settings import loading


@click.command()
@options.cluster
@options.settings
@options.policies
@options.sidecar
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the manifests; contact no cluster.",
)
@click.option(
    "--check", is_flag=True, help="Only check the cluster's prerequisites; change nothing."
)
@options.message
@options.yes
@options.output
def command(
    target: registry.Target,
    settings_file: Path | None,
    policies_folder: Path | None,
    sidecar: str | None,
    dry_run: bool,
    check: bool,
    message: str | None,
    yes: bool,
    output: str,
) -> int:
    """Deploy OPA, its sidecar, the policies and the webhook into a running cluster; safe to repeat.

    If Fairlead did not create the cluster, the command asks first. It checks the prerequisites and
    lists all that fail at once.
    """
    if dry_run and check:
        raise UsageError("--dry-run contacts no cluster, but --check does: leave one of them out")
    settings = loading.load(settings_file)
    if dry_run:
        with out.progress() as progress:
            rendered = render.render(settings, policies_folder, sidecar=sidecar, progress=progress)
        for note in rendered.notes:
            out.note(note)
        objects = rendered.objects
        out.emit(objects, output, lambda _: out.line(manifests.to_yaml(objects).rstrip()))
        return 0
    cluster = registry.find(target)
    if check:
        findings = [
            asdict(finding)
            for finding in library.check(cluster, settings, policies_folder, sidecar=sidecar)
        ]
        out.emit(findings, output, out.rows(None, ("check", "ok", "detail"), findings))
        return int(not all(finding["ok"] for finding in findings))
    options.ask(target, cluster, "deploy into", yes=yes)
    with out.progress() as progress:
        states = library.deploy(
            cluster, settings, policies_folder, sidecar=sidecar, message=message, progress=progress
        )
    rows = [{"url": s.opa.url, "ready": s.ready, "revision": s.revision} for s in states]
    out.emit(rows, output, out.rows(None, ("url", "ready", "revision"), rows))
    return 0

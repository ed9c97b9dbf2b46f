"""`fairlead audit`: what the policies would do to the objects of a whole cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fairlead.admission import audit as library
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.decisions import grouped
from fairlead.clusters import registry


@click.command()
@options.cluster
@options.settings
@options.policies
@options.output
def command(
    target: registry.Target, settings_file: Path | None, policies_folder: Path | None, output: str
) -> int:
    """Show which objects of a cluster the policies would change or refuse, and which pods run
    outside their pool today.

    Every pod and template, and every object of another kind that a policy is about, is decided on
    as if its author applied it again, by the policies of this checkout and as if all of them were
    enforced. "not asked" means that the cluster's webhooks do not send this object to OPA. Intents
    that are not deployed yet have no webhooks there: for them, those of a deployment count. The
    command needs only the right to list. It works in clusters without Fairlead, too.

    Exit code: 1 if a pod runs outside its pool, or something would be refused.
    """
    policies = options.load_policies(settings_file, policies_folder)
    cluster = registry.find(target)
    with out.progress() as progress:
        data = library.audit(cluster, policies, progress=progress)
    out.emit(data, output, lambda console: _draw(data, console))
    return int(any(data["counts"][kind] for kind in library.VIOLATIONS))


def _draw(data: dict[str, Any], console: Console) -> None:
    findings = [finding for finding in data["findings"] if finding["finding"] != library.PLACED]
    if findings:
        out.rows(
            None,
            ("finding", "namespace", "pool", "objects", "message"),
            grouped.lines(findings, "finding", "pool"),
        )(console)
        console.print()
    if undeployed := data["undeployed"]:
        console.print(
            f"not deployed yet, and judged as if deployed: {', '.join(undeployed)}", soft_wrap=True
        )
    console.print(grouped.counts(data["counts"], "object"), soft_wrap=True)

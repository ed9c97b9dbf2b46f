"""`fairlead deploy`: deploy Fairlead into a cluster, as the settings say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.operations import outcomes
from fairlead.clusters import registry
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.operations import deploy
from fairlead.operations.applying import UNCHANGED, Outcome


@click.command()
@options.cluster
@options.settings
@options.policies
@options.engine
@options.sidecar
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the manifests; contact no cluster. With --diff: only show what would change there.",
)
@click.option(
    "--diff",
    is_flag=True,
    help="First show what would be created and changed (with the fields), and how many objects "
    "would be left as they are.",
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
    engine: str | None,
    sidecar: str | None,
    dry_run: bool,
    diff: bool,
    check: bool,
    message: str | None,
    yes: bool,
    output: str,
) -> int:
    """Deploy the policies and what enforces them into a running cluster: OPA, its sidecar and the
    webhooks, with --engine python a server in OPA's place, or with --engine cel only objects of the
    API server. It is safe to repeat. It prints for each object whether it was created, configured
    or unchanged.

    If another engine is deployed, it is removed once the new one enforces the policies.

    If Fairlead did not create the cluster, the command asks first; with --diff on a terminal, it
    asks in any cluster. It checks the prerequisites and lists all that fail at once.
    """
    if check and (dry_run or diff):
        raise UsageError("--check does not go with --dry-run or --diff: leave one of them out")
    policies = options.load_policies(settings_file, policies_folder)
    if dry_run and not diff:
        with out.progress() as progress:
            rendered = deploy.render_objects(
                policies, engine=engine, sidecar=sidecar, progress=progress
            )
        if note := rendered.save():
            out.note(note)
        objects = rendered.printed
        out.emit(objects, output, lambda _: out.line(manifests.to_yaml(objects).rstrip()))
        return 0
    cluster = registry.find(target)
    if check:
        with out.progress() as progress:
            checked = deploy.check(
                cluster, policies, engine=engine, sidecar=sidecar, progress=progress
            )
        findings = [asdict(finding) for finding in checked]
        out.emit(findings, output, out.rows(None, ("check", "ok", "detail"), findings))
        return int(not all(finding["ok"] for finding in findings))
    review = False
    if diff:
        with out.progress() as progress:
            plan = deploy.plan(cluster, policies, engine=engine, sidecar=sidecar, progress=progress)
        if dry_run:
            outcomes.emit_plan(plan, output)
            return 0
        # Standard output is for what was done.
        target_console = (
            out.console() if output == "table" else Console(stderr=True, highlight=False)
        )
        outcomes.draw_plan(plan, target_console)
        review = any(outcome.action != UNCHANGED for outcome in plan)
    options.ask(target, cluster, "deploy into", confirmed=yes, review=review)
    results: list[Outcome] = []
    try:
        with out.progress() as progress:
            states = deploy.deploy(
                cluster,
                policies,
                engine=engine,
                sidecar=sidecar,
                message=message,
                outcomes=results,
                progress=progress,
            )
    finally:
        if results:
            documents = [outcome.document() for outcome in results]
            out.emit(documents, output, lambda console: outcomes.draw_result(results, console))
    if output == "table" and states:
        out.line()
        out.rows(None, ("url", "ready", "revision"), states)(out.console())
    return 0

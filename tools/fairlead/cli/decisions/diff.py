"""`fairlead diff`: which decisions changed policies would change for a whole cluster, or which
objects a deployment would change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fairlead.admission import diff as library
from fairlead.admission.batch import described
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.decisions import grouped
from fairlead.cli.operations import outcomes
from fairlead.clusters import registry
from fairlead.deployment.engine_names import ENGINES
from fairlead.deployment.names import OPA_ENGINE
from fairlead.operations import deploy, push
from fairlead.operations.applying import UNCHANGED


@click.command()
@options.cluster
@options.settings
@options.policies
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="The engine that is to decide by the policies of this checkout: it shows what a change to "
    "that engine would change. What engines only word differently does not count.  [default: OPA, "
    "by the Rego of the policies]",
)
@click.option(
    "--objects",
    "of_objects",
    is_flag=True,
    help="Instead of decisions, show the objects that `fairlead deploy` would create and change "
    "(with the fields), and how many it would leave as they are.",
)
@options.output
def command(
    target: registry.Target,
    settings_file: Path | None,
    policies_folder: Path | None,
    engine: str | None,
    of_objects: bool,
    output: str,
) -> int:
    """Show the objects of a cluster on which the policies of this checkout would decide
    differently.

    Their decisions are compared with those of the deployed policies: refusals, patches, messages
    and warnings. Run it before `fairlead push` or `fairlead deploy`.

    Exit code: 0 if nothing differs, 1 if something does.
    """
    policies = options.load_policies(settings_file, policies_folder)
    cluster = registry.find(target)
    if of_objects:
        with out.progress() as progress:
            plan = deploy.plan(cluster, policies, engine=engine, progress=progress)
        outcomes.emit_plan(plan, output)
        return int(any(outcome.action != UNCHANGED for outcome in plan))
    with out.progress() as progress:
        new = push.revision(cluster, policies, engine=engine, progress=progress)
        data = library.diff(
            cluster, policies, revision=new, engine=engine or OPA_ENGINE, progress=progress
        )
    out.emit(data, output, lambda console: _draw(data, console))
    return int(bool(data["differences"]))


def _draw(data: dict[str, Any], console: Console) -> None:
    if differences := [
        {**difference, "message": message(difference)} for difference in data["differences"]
    ]:
        out.rows(
            None,
            ("difference", "namespace", "objects", "message"),
            grouped.lines(differences, "difference"),
        )(console)
        console.print()
    counts = grouped.counts(data["counts"], "object")
    console.print(
        f"{data['revisions']['deployed']} -> {data['revisions']['new']}: {counts}", soft_wrap=True
    )


def message(difference: dict[str, Any]) -> str:
    """What the decision was, and what it becomes; a text that both have stands once. A decision on
    the pods of a workload says so.
    """
    sides = (difference["deployed"], difference["new"])
    of_pods = [side["of"] == "Pod" != difference["kind"] for side in sides]
    (old, old_text), (new, new_text) = map(_said, sides)
    if of_pods == [False, True] or of_pods == [True, False]:
        old, new = (
            f"its pods {verdict}" if pods else verdict
            for verdict, pods in zip((old, new), of_pods, strict=True)
        )
    prefix = "its pods: " if all(of_pods) else ""
    if old_text == new_text:
        return f"{prefix}{old} -> {new}: {new_text}"
    return prefix + " -> ".join(
        f"{verdict}: {text}" if text else verdict
        for verdict, text in ((old, old_text), (new, new_text))
    )


def _said(decision: dict[str, Any]) -> tuple[str, str]:
    """The verdict, and the message, warnings and patch as text."""
    texts = (decision["message"], *decision["warnings"], described(decision["patch"]))
    if not decision["allowed"]:
        verdict = "refused"
    elif not decision["asked"]:
        verdict = "not asked"
    elif decision["warnings"]:
        verdict = "admitted with a warning"
    else:
        verdict = "admitted" if decision["patch"] else "admitted unchanged"
    return verdict, "; ".join(filter(None, texts))

"""Carries out decisions on clusters, for `fairlead place --apply`: in member clusters, or by
Karmada's policies in a host cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from fairlead.analysis.place import Result
from fairlead.cli import output as out
from fairlead.cli.placement.place_options import Execution
from fairlead.common.progress import Progress

if TYPE_CHECKING:
    from fairlead.federation.execution import Report

_COLUMNS = ("cluster", "kind", "namespace", "name", "replicas", "action")


def tell_errors(result: Result) -> None:
    """Print the errors of workloads that have no clusters."""
    for placement in result.placements:
        for text in placement.sentences:
            out.error(f"{placement.title}: {text}")


def run(result: Result, execution: Execution, output: str) -> int:
    """Carry out the decisions, and print what became of each object. Returns the exit code: 1 if
    something could not be done; if a workload has no clusters, nothing is done at all in members.
    Raises UsageError.
    """
    failed = any(placement.errors for placement in result.placements)
    if failed:
        tell_errors(result)
    if failed and not execution.host:
        out.note("nothing was changed")
        return 1
    with out.progress() as progress:
        report = carried_out(result, execution, progress)
    emit(result, report, output)
    return int(failed or bool(report.problems))


def carried_out(result: Result, execution: Execution, progress: Progress) -> Report:
    """Carry out the decisions. Raises UsageError."""
    # Here, as the Kubernetes client takes longer to load than OPA to decide.
    from fairlead.federation import execution as carrying_out
    from fairlead.federation import karmada_policies, members, shares

    if host := execution.host_member():
        return karmada_policies.keep(result, host, progress=progress)
    return carrying_out.execute(
        shares.of(result),
        members.parsed(execution.members, execution.kubeconfig),
        timeout=execution.timeout,
        share=execution.share,
        progress=progress,
    )


def emit(
    result: Result,
    report: Report,
    output: str,
    *,
    unchanged: bool = True,
    known: Collection[str] = (),
) -> None:
    """Print what became of each object, also of those that are `unchanged`, and the notes and
    problems that are not `known`.
    """
    replicas = {
        (each.document.value["kind"], each.namespace, _name(each.document.value)): each.replicas
        for each in result.placements
    }
    rows = [
        {
            "cluster": cluster,
            "kind": each.kind,
            "namespace": each.namespace,
            "name": each.name,
            "replicas": replicas.get((each.kind, each.namespace or "", each.name), {}).get(cluster),
            "action": each.action,
        }
        for cluster, outcomes in report.outcomes.items()
        for each in outcomes
        if unchanged or each.action != "unchanged"
    ]
    if rows or unchanged:
        shown = output if output in out.FORMATS else "table"
        out.emit(rows, shown, out.rows(None, _COLUMNS, rows))
    for text in report.notes:
        if text not in known:
            out.note(text)
    for problem in report.problems:
        if problem not in known:
            out.error(problem)


def _name(manifest: Mapping[str, Mapping[str, str]]) -> str | None:
    return (manifest.get("metadata") or {}).get("name")

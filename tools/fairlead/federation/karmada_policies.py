"""Keeps Karmada's policies current for the workloads of a host cluster."""

from __future__ import annotations

from fairlead.analysis.place import Result
from fairlead.common.errors import FairleadError, InputError
from fairlead.common.progress import Progress
from fairlead.federation import karmada
from fairlead.federation.execution import Report
from fairlead.federation.members import Member
from fairlead.federation.reached import ReachedCluster, is_ours

_KINDS = ("PropagationPolicy", "OverridePolicy")


def keep(result: Result, host: Member, *, progress: Progress) -> Report:
    """Apply the policies of all workloads without errors, and delete those that belong to none of
    the workloads any more. Policies that were not applied in this way are left alone, and so are
    those of workloads with errors; all are, if there is no workload at all, as by a mistyped
    selector. Raises InputError as karmada.policies.
    """
    if not result.placements:
        problem = f"{host.name}: no workload matches the selector. Nothing was changed"
        return Report(problems=[problem])
    wanted = karmada.policies(result.placements)
    titles = {placement.title for placement in result.placements}
    errors = {placement.title for placement in result.placements if placement.errors}
    report = Report()
    progress.update(host.name, "connecting")
    try:
        objects = host.objects()
    except InputError:
        raise
    except FairleadError as error:
        report.problems.append(f"{host.name}: {error}")
        progress.finish(host.name, "not reached")
        return report
    cluster = ReachedCluster(host.name, objects)
    progress.update(host.name, "applying policies")
    for policy in wanted:
        cluster.apply(policy)
    names = {(policy["kind"], *_place(policy)) for policy in wanted}
    try:
        for kind in _KINDS:
            for live in objects.list(karmada.API_VERSION, kind, None):
                title = karmada.title_of(live)
                left = title not in titles or (
                    title not in errors and (kind, *_place(live)) not in names
                )
                if is_ours(live) and left:
                    cluster.remove({"apiVersion": karmada.API_VERSION, "kind": kind, **live})
    except FairleadError as error:
        cluster.problems.append(f"{host.name}: {error}")
    report.outcomes[host.name] = cluster.applier.outcomes
    report.problems += cluster.problems
    progress.finish(host.name, "not all policies are current" if report.problems else "current")
    return report


def _place(policy: dict[str, dict[str, str]]) -> tuple[str, str]:
    return policy["metadata"]["namespace"], policy["metadata"]["name"]

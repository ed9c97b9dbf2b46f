"""Carries out decisions on clusters in member clusters, for `fairlead place --apply`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from fairlead.analysis.place import Result
from fairlead.cli import output as out
from fairlead.common.errors import UsageError


@dataclass(frozen=True)
class Execution:
    """Where to carry out decisions: members as `--member` has them, the kubeconfig that has their
    contexts, and for how many seconds to wait for pods.
    """

    members: tuple[str, ...]
    kubeconfig: Path | None
    timeout: float


_OPTIONS = (
    click.option(
        "--apply",
        "applied",
        is_flag=True,
        help="Apply the manifests in the member clusters, each with its share of the replicas.",
    ),
    click.option(
        "--member",
        "members",
        metavar="NAME[=CONTEXT]",
        multiple=True,
        help="A member cluster: its name in the data, and the context that leads to it; without a "
        "context, the cluster that `fairlead up --member NAME` started. Repeatable.",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig that has the contexts.  [default: KUBECONFIG or ~/.kube/config]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=300.0,
        show_default=True,
        help="Seconds to wait for pods in new clusters, before old ones are removed.",
    ),
)


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `execution`, an Execution, or None without
    `--apply`.
    """

    @functools.wraps(command)
    def chosen(
        *arguments: Any,
        applied: bool,
        members: tuple[str, ...],
        kubeconfig: Path | None,
        timeout: float,
        **others: Any,
    ) -> Any:
        if applied and not members:
            raise UsageError(
                "--apply needs to know the clusters: name each by --member NAME=CONTEXT"
            )
        if (members or kubeconfig) and not applied:
            flag = "--member" if members else "--kubeconfig"
            raise UsageError(f"{flag} is for --apply: add that, or leave {flag} out")
        if applied and others["output"] not in out.FORMATS:
            raise UsageError(
                f"-o {others['output']} prints what others carry out: leave out it, or --apply"
            )
        execution = Execution(members, kubeconfig, timeout) if applied else None
        return command(*arguments, execution=execution, **others)

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen


def run(result: Result, execution: Execution, output: str) -> int:
    """Carry out the decisions, and print what became of each object. Returns the exit code: 1 if
    something could not be done; if a workload has no clusters, nothing is done at all. Raises
    UsageError.
    """
    # Here, as the Kubernetes client takes longer to load than OPA to decide.
    from fairlead.federation import execution as carrying_out
    from fairlead.federation import members, shares

    failed = [placement for placement in result.placements if placement.errors]
    if failed:
        for placement in failed:
            for text in placement.sentences:
                out.error(f"{placement.title}: {text}")
        out.note("nothing was changed")
        return 1
    decided = shares.of(result)
    clusters = members.parsed(execution.members, execution.kubeconfig)
    with out.progress() as progress:
        report = carrying_out.execute(
            decided, clusters, timeout=execution.timeout, progress=progress
        )
    replicas = {
        (workload.kind, workload.namespace, workload.name): workload.replicas
        for workload in decided.workloads
    }
    rows = [
        {
            "cluster": cluster,
            "kind": each.kind,
            "namespace": each.namespace,
            "name": each.name,
            "replicas": _share(replicas, cluster, each.kind, each.namespace, each.name),
            "action": each.action,
        }
        for cluster, outcomes in report.outcomes.items()
        for each in outcomes
    ]
    out.emit(rows, output, out.rows(None, tuple(rows[0]) if rows else (), rows))
    for problem in report.problems:
        out.error(problem)
    return int(bool(report.problems))


def _share(
    replicas: Mapping[tuple[str, str, str], Mapping[str, int]],
    cluster: str,
    kind: str,
    namespace: str | None,
    name: str,
) -> int | None:
    return replicas.get((kind, namespace or "", name), {}).get(cluster)

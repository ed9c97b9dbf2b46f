"""Keeps Karmada's policies current for the workloads of a host cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import ownership
from fairlead.kube import admission_reviews, api_paths, clients
from fairlead.kube.errors import Unreachable
from fairlead.operations.applying import Applier, Outcome
from fairlead.placement import karmada
from fairlead.placement.decisions import Result
from fairlead.placement.hosts import Host, is_ours

_KINDS = ("PropagationPolicy", "OverridePolicy")


@dataclass
class Report:
    """What became of each policy in the host cluster. `problems` are sentences about what could not
    be done.
    """

    host: str
    outcomes: Sequence[Outcome] = ()
    problems: list[str] = field(default_factory=list)


def keep(result: Result, host: Host, *, progress: Progress) -> Report:
    """Apply the policies of all workloads without errors, and delete those that belong to none of
    the workloads any more. Policies that were not applied in this way are left alone, and so are
    those of workloads with errors or that could not be read; all are, if there is no workload at
    all, as by a mistyped selector. Raises InputError as karmada.policies.
    """
    report = Report(host.name)
    if not result.workloads:
        report.problems.append(
            f"{host.name}: no workload matches the selector. Nothing was changed"
        )
        return report
    policies = karmada.policies(result.placements)
    progress.update(host.name, "connecting")
    try:
        objects = host.objects()
    except UsageError as error:
        report.problems.append(str(error))
        progress.finish(host.name, "not reached")
        return report
    progress.update(host.name, "applying policies")
    run = _Run(objects, report)
    try:
        for policy in policies:
            run.apply(policy)
        run.remove_others(policies, result)
    except Unreachable as error:
        report.problems.append(f"{host.name}: {error}")
    report.outcomes = run.applier.outcomes
    progress.finish(host.name, "not all policies are current" if report.problems else "current")
    return report


def _marked(policy: Mapping[str, Any]) -> dict[str, Any]:
    """The policy with the label by which a later run knows it."""
    metadata = policy["metadata"]
    marked = {**metadata, "labels": ownership.labels(metadata.get("labels"))}
    return {**policy, "metadata": marked}


class _Run:
    """Applies and deletes policies. Methods raise Unreachable if the API server does not answer;
    other errors become problems of the report.
    """

    def __init__(self, objects: clients.Objects, report: Report) -> None:
        self.applier = Applier(objects)
        self._objects = objects
        self._report = report

    def apply(self, policy: Mapping[str, Any]) -> None:
        """Apply the policy, unless others did before."""
        with self._attempt():
            namespace, name = _place(policy)
            live = self._objects.get(policy["apiVersion"], policy["kind"], name, namespace)
            title = f"{policy['kind']} {namespace}/{name}"
            if live is not None and not is_ours(live):
                raise FairleadError(
                    f"{title} is there already, and `fairlead place` did not make it: remove it "
                    "there, or leave it out here"
                )
            if live is not None and live["metadata"].get("deletionTimestamp"):
                raise FairleadError(f"{title} is being deleted: run this again later")
            self.applier.apply(_marked(policy))

    def remove_others(self, policies: Sequence[Mapping[str, Any]], result: Result) -> None:
        """Delete Fairlead's policies that are not among these, except those of workloads that have
        errors now, or could not be read.
        """
        current = {(policy["kind"], *_place(policy)) for policy in policies}
        undecided = {placement.title for placement in result.placements if placement.errors}
        undecided |= {*result.unread}
        for kind in _KINDS:
            with self._attempt():
                path = api_paths.joined(karmada.API_VERSION, None, admission_reviews.plural(kind))
                left = [
                    _place(live)
                    for live in self._objects.collection(path, {})
                    if (kind, *_place(live)) not in current
                    and is_ours(live)
                    and karmada.title_of(live) not in undecided
                ]
                for place in left:
                    self._delete(kind, place)

    def _delete(self, kind: str, place: tuple[str, str]) -> None:
        with self._attempt():
            namespace, name = place
            self.applier.delete(karmada.API_VERSION, kind, name, namespace)

    @contextmanager
    def _attempt(self) -> Iterator[None]:
        try:
            yield
        except Unreachable:
            raise
        except FairleadError as error:
            self._report.problems.append(f"{self._report.host}: {error}")


def _place(policy: Mapping[str, Any]) -> tuple[str, str]:
    return policy["metadata"]["namespace"], policy["metadata"]["name"]

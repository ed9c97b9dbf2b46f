"""Compares the decisions of changed policies and settings with those of the deployed ones, for a
whole cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from fairlead.admission import asked, batch, earlier_pools, engine_decisions
from fairlead.admission.asked import Webhooks
from fairlead.admission.decisions import Decision, refused
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names
from fairlead.deployment.names import NAMESPACE, OPA_ENGINE, POLICIES
from fairlead.kube.api_requests import ApiRequests
from fairlead.operations import drift, history
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Replicated

REFUSED = "would be refused"
ADMITTED = "would be admitted"
PATCHED = "would get another patch"
TOLD = "would get another message"
KINDS = (REFUSED, ADMITTED, PATCHED, TOLD)
"""The ways in which a decision can differ, the gravest first."""


@dataclass(frozen=True)
class Difference:
    """An object with a different decision. `deployed` and `new` are {of, asked, allowed, message,
    warnings, patch}; `of` is the kind that was decided on, Pod for the pods of a workload.
    """

    namespace: str
    kind: str
    name: str
    difference: str
    deployed: dict[str, Any]
    new: dict[str, Any]


def diff(
    cluster: Cluster,
    policies: PolicySet,
    *,
    revision: str,
    engine: str = OPA_ENGINE,
    progress: Progress,
) -> dict[str, Any]:
    """Compare the decisions of the policies deployed in `cluster` with those of these policies:
    each where its webhooks ask OPA. The new policies would have this `revision`. If another
    `engine` is to decide by them, only what is done counts: engines differ in words.

    Returns {differences, counts, revisions}: dicts of Difference, the gravest first; {same,
    different}; and {deployed, new}. Raises UsageError if nothing is deployed or the engine cannot
    express an intent, FairleadError if objects cannot be read or an engine fails.
    """
    deployed = _deployed(cluster)
    before_them = _policies(deployed)
    kinds = further_kinds([*(before_them.active if before_them else ()), *policies.active])
    settings = [each.settings for each in (before_them, policies) if each]
    pools = earlier_pools.of_cluster(cluster, *settings)
    requests = _Requests(
        Inventory(ApiRequests(cluster.kubeconfig), progress, kinds, pools), progress
    )
    now = asked.of_cluster(cluster, before_them or policies)
    rendered = asked.rendered(policies)
    modules = bundles.modules_of(deployed["data"])
    before = requests.decisions(now, modules, _replicated(deployed), "deployed")
    if engine == OPA_ENGINE:
        after = requests.decisions(rendered, policies.modules, policies.settings.replicate, "new")
        compared = [compare(*pair) for pair in zip(before, after, strict=True)]
    else:
        after = requests.decisions_of(engine, policies, rendered)
        compared = requests.compared(before, after)
    different = differences(requests.subjects, before, after, compared)
    return {
        "differences": [asdict(difference) for difference in different],
        "counts": {
            "same": len(requests.subjects) - len(different),
            "different": len(different),
        },
        "revisions": {"deployed": bundles.revision(deployed["data"]), "new": revision},
    }


class _Requests:
    """The requests that would create the objects of a cluster again."""

    def __init__(self, inventory: Inventory, progress: Progress) -> None:
        self.subjects = inventory.subjects
        self._reviews = [review for subject in self.subjects for review in subject.reviews]
        self._inventory = inventory
        self._progress = progress

    def decisions(
        self,
        webhooks: Webhooks,
        modules: Mapping[str, str],
        replicated: Sequence[Replicated],
        name: str,
    ) -> list[Decision]:
        """What OPA decides by these modules, where the webhooks ask it."""
        admissions = self._admissions(webhooks)
        decisions = batch.decide(
            self._questions(admissions),
            modules=modules,
            kubernetes=self._inventory.data(replicated),
            progress=self._progress,
            name=name,
        )
        return [*map(Decision.admitted, decisions, admissions)]

    def decisions_of(self, engine: str, policies: PolicySet, webhooks: Webhooks) -> list[Decision]:
        """What another engine decides. Admission policies say themselves what they are about."""
        labels = {
            name: namespace["metadata"]["labels"]
            for name, namespace in self._inventory.namespaces.items()
        }
        if engine not in engine_names.ASKED:
            return engine_decisions.decide(
                engine,
                policies,
                self._reviews,
                labels,
                self._inventory.exceptions,
                progress=self._progress,
            )
        admissions = self._admissions(webhooks)
        decisions = engine_decisions.decide(
            engine,
            policies,
            self._questions(admissions),
            labels,
            self._inventory.exceptions,
            progress=self._progress,
        )
        return [*map(Decision.admitted, decisions, admissions)]

    def compared(self, before: Sequence[Decision], after: Sequence[Decision]) -> list[str | None]:
        """How the decisions of two engines differ, by request."""
        return [
            compare(*(engine_decisions.comparable(decision, review) for decision in pair))
            for review, *pair in zip(self._reviews, before, after, strict=True)
        ]

    def _admissions(self, webhooks: Webhooks) -> list[asked.Asked]:
        return asked.ask(
            webhooks,
            self._reviews,
            self._inventory.namespaces,
            complete=True,
            progress=self._progress,
        )

    def _questions(self, admissions: Sequence[asked.Asked]) -> list[Any]:
        return [
            admission.question(review)
            for review, admission in zip(self._reviews, admissions, strict=True)
        ]


def differences(
    subjects: Iterable[Subject],
    before: Iterable[Decision],
    after: Iterable[Decision],
    compared: Iterable[str | None],
) -> list[Difference]:
    """The differences, the gravest first, and one for an object."""
    decided = zip(before, after, compared, strict=True)
    of_objects = (
        _of_object(subject, [next(decided) for _ in subject.reviews]) for subject in subjects
    )
    return sorted(
        filter(None, of_objects),
        key=lambda d: (KINDS.index(d.difference), d.namespace, d.kind, d.name),
    )


def _of_object(
    subject: Subject, decided: Sequence[tuple[Decision, Decision, str | None]]
) -> Difference | None:
    """How the decisions on an object differ, those on its pods included; None if they do not.

    It counts as refused if it is refused itself, or its pods are: what else is decided has no
    effect then.
    """
    old, new = [each[0] for each in decided], [each[1] for each in decided]
    before, after = refused(old), refused(new)
    if before is not None and after is not None:
        either = [each for each in decided if not (each[0].allowed and each[1].allowed)]
        sides = (before, old), (after, new)
        return _difference(subject, TOLD, *sides) if any(each[2] for each in either) else None
    if after is not None:
        return _difference(subject, REFUSED, (after, old), (after, new))
    if before is not None:
        return _difference(subject, ADMITTED, (before, old), (before, new))
    differing = [(KINDS.index(each[2]), -at) for at, each in enumerate(decided) if each[2]]
    if not differing:
        return None
    kind, last = min(differing)  # that of the object itself before that of its pods
    return _difference(subject, KINDS[kind], (-last, old), (-last, new))


def _difference(subject: Subject, kind: str, *sides: tuple[int, Sequence[Decision]]) -> Difference:
    """The difference between two decisions, each by its number among those on the object."""
    old, new = (
        {"of": subject.reviews[at]["request"]["kind"]["kind"], **_as_dict(decisions[at])}
        for at, decisions in sides
    )
    return Difference(subject.namespace, subject.kind, subject.name, kind, old, new)


def compare(deployed: Decision, new: Decision) -> str | None:
    """The kind of difference between two decisions on one request; None if they are the same."""
    if deployed.allowed != new.allowed:
        return ADMITTED if new.allowed else REFUSED
    if deployed.patch != new.patch:
        return PATCHED
    if (deployed.message, sorted(deployed.warnings)) != (new.message, sorted(new.warnings)):
        return TOLD
    return None


def _as_dict(decision: Decision) -> dict[str, Any]:
    return {
        "asked": decision.asked,
        "allowed": decision.allowed,
        "message": decision.message,
        "warnings": list(decision.warnings),
        "patch": list(decision.patch),
    }


def _replicated(deployed: dict[str, Any]) -> list[Replicated]:
    """The resources that the deployed OPA holds besides namespaces; none if not recorded."""
    stored = history.settings_of(deployed) or {}
    try:
        return [Replicated.model_validate(resource) for resource in stored.get("replicate") or ()]
    except (ValidationError, TypeError):  # written by hand or by another version of Fairlead
        return []


def _policies(deployed: dict[str, Any]) -> PolicySet | None:
    """The deployed policies; None if another version of Fairlead wrote them."""
    try:
        return PolicySet.deployed(deployed["data"], drift.settings(deployed))
    except FairleadError:
        return None


def _deployed(cluster: Cluster) -> dict[str, Any]:
    objects = cluster.objects()
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    if config_map is None or not config_map.get("data"):
        raise UsageError(
            f"cluster {cluster.name} has no deployed policies to compare with: "
            "run `fairlead audit` to see what yours would do"
        )
    return config_map

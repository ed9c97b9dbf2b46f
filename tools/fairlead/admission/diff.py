"""Compares the decisions of changed policies and settings with those of the deployed ones, for a
whole cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ValidationError

from fairlead.admission import asked, batch, engine_decisions
from fairlead.admission.asked import Webhooks
from fairlead.admission.decisions import Decision
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names
from fairlead.deployment.names import NAMESPACE, OPA_ENGINE, POLICIES
from fairlead.operations import drift, history
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
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
    """An object with a different decision. `deployed` and `new` are {asked, allowed,
    message, warnings, patch}.
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
    kinds = further_kinds([*_active(deployed), *policies.active])
    requests = _Requests(Inventory(cluster, progress, kinds), progress)
    now, rendered = asked.of_cluster(cluster, policies), asked.rendered(policies)
    modules = bundles.modules_of(deployed["data"])
    before = requests.decisions(now, modules, _replicated(deployed), "deployed")
    if engine == OPA_ENGINE:
        after = requests.decisions(rendered, policies.modules, policies.settings.replicate, "new")
        compared = [compare(*pair) for pair in zip(before, after, strict=True)]
    else:
        after = requests.decisions_of(engine, policies, rendered)
        compared = requests.compared(before, after)
    differences = _differences(requests.subjects, before, after, compared)
    return {
        "differences": [asdict(difference) for difference in differences],
        "counts": {
            "same": len(requests.subjects) - len(differences),
            "different": len(differences),
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
                engine, policies, self._reviews, labels, progress=self._progress
            )
        admissions = self._admissions(webhooks)
        decisions = engine_decisions.decide(
            engine, policies, self._questions(admissions), labels, progress=self._progress
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


def _differences(
    subjects: Iterable[Subject],
    before: Iterable[Decision],
    after: Iterable[Decision],
    compared: Iterable[str | None],
) -> list[Difference]:
    """The differences, the gravest first. One is enough for an object: that of the pod, which comes
    before its workload's.
    """
    decided = zip(before, after, compared, strict=True)
    differences = []
    for subject in subjects:
        of_subject = [next(decided) for _ in subject.reviews]
        for old, new, difference in of_subject:
            if difference:
                key = (subject.namespace, subject.kind, subject.name)
                differences.append(Difference(*key, difference, _as_dict(old), _as_dict(new)))
                break
    return sorted(
        differences, key=lambda d: (KINDS.index(d.difference), d.namespace, d.kind, d.name)
    )


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


def _active(deployed: dict[str, Any]) -> Sequence[Instance]:
    """The deployed intents; none if another version of Fairlead wrote them."""
    try:
        return PolicySet.deployed(deployed["data"], drift.settings(deployed)).active
    except FairleadError:
        return []


def _deployed(cluster: Cluster) -> dict[str, Any]:
    objects = cluster.objects()
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    if config_map is None or not config_map.get("data"):
        raise UsageError(
            f"cluster {cluster.name} has no deployed policies to compare with: "
            "run `fairlead audit` to see what yours would do"
        )
    return config_map

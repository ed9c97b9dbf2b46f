"""Compares the decisions of changed policies and settings with those of the deployed ones, for a
whole cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fairlead.analysis import asked, batch
from fairlead.analysis.asked import Webhooks
from fairlead.analysis.batch import Decision
from fairlead.analysis.inventory import Inventory, further_kinds
from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.operations import drift, history
from fairlead.policy import bundles
from fairlead.policy.instances import Instance
from fairlead.settings.models import Replicated, Settings

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
    settings: Settings,
    folder: Path | None = None,
    *,
    revision: str,
    progress: Progress,
) -> dict[str, Any]:
    """Compare the decisions of the policies deployed in `cluster` with those of `settings` and the
    policies of `folder`, or the checkout's: each where its webhooks ask OPA. The new policies would
    have this `revision`.

    Returns {differences, counts, revisions}: dicts of Difference, the gravest first; {same,
    different}; and {deployed, new}. Raises UsageError if nothing is deployed, FairleadError if
    objects cannot be read or OPA fails.
    """
    deployed = _deployed(cluster)
    bundle = bundles.bundle(settings, folder)
    kinds = further_kinds([*_active(deployed), *bundle.active(settings)])
    inventory = Inventory(cluster, progress, kinds)
    subjects = inventory.subjects
    reviews = [review for subject in subjects for review in subject.reviews]

    def decide(
        webhooks: Webhooks,
        modules: Mapping[str, str],
        replicated: Sequence[Replicated],
        name: str,
    ) -> Iterator[Decision]:
        admissions = asked.ask(
            webhooks, reviews, inventory.namespaces, complete=True, progress=progress
        )
        decisions = batch.decide(
            [
                admission.question(review)
                for review, admission in zip(reviews, admissions, strict=True)
            ],
            modules=modules,
            kubernetes=inventory.data(replicated),
            progress=progress,
            name=name,
        )
        return map(Decision.admitted, decisions, admissions)

    now, rendered = asked.of_cluster(cluster, settings, folder), asked.rendered(settings, folder)
    modules = bundles.modules_of(deployed["data"])
    before = decide(now, modules, _replicated(deployed), "deployed")
    after = decide(rendered, bundle.modules, settings.replicate, "new")
    differences = []
    for subject in subjects:
        pairs = [(next(before), next(after)) for _ in subject.reviews]
        for old, new in pairs:
            # One difference is enough: that of the pod, which comes before its workload's.
            if difference := compare(old, new):
                key = (subject.namespace, subject.kind, subject.name)
                differences.append(Difference(*key, difference, _as_dict(old), _as_dict(new)))
                break
    differences.sort(key=lambda d: (KINDS.index(d.difference), d.namespace, d.kind, d.name))
    return {
        "differences": [asdict(difference) for difference in differences],
        "counts": {"same": len(subjects) - len(differences), "different": len(differences)},
        "revisions": {"deployed": bundles.revision(deployed["data"]), "new": revision},
    }


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


def _active(deployed: dict[str, Any]) -> list[Instance]:
    """The deployed intents; none if another version of Fairlead wrote them."""
    try:
        modules = bundles.modules_of(deployed["data"])
        return bundles.Bundle(modules).active(drift.settings(deployed))
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

"""Audits a cluster, for instance before Fairlead is deployed: which objects the policies would
change or refuse, and which pods run outside their pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.analysis import asked, batch
from fairlead.analysis.asked import Asked
from fairlead.analysis.batch import Decision, described
from fairlead.analysis.inventory import Inventory, Subject
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.policy import bundles
from fairlead.settings.models import Settings

OUTSIDE = "outside its pool"
REFUSED = "would be refused"
CHANGED = "would change"
NOT_ASKED = "not asked"
PLACED = "placed"
UNMAPPED = "not mapped"
ALONE = "left alone"
KINDS = (OUTSIDE, REFUSED, CHANGED, NOT_ASKED, PLACED, UNMAPPED, ALONE)
"""The findings on a pod or a template, the worst first. The last two are only counted."""

VIOLATIONS = (OUTSIDE, REFUSED)


@dataclass(frozen=True)
class Finding:
    """The finding on a pod or a template. `pool` is the pool of its namespace, `node` the node that
    a pod runs on. OPA is `asked` if any webhook calls it for the object or for its template's pods;
    `reason` says why not.
    """

    namespace: str
    kind: str
    name: str
    pool: str | None
    node: str | None
    finding: str
    message: str
    asked: bool = True
    reason: str = ""


def audit(
    cluster: Cluster, settings: Settings, folder: Path | None = None, *, progress: Progress
) -> dict[str, Any]:
    """Evaluate the policies (of `folder`, or the checkout's) on every pod and template of
    `cluster`, as if all intents were enforced, where the API server asks OPA.

    Fairlead need not be deployed in the cluster; the right to list objects is enough. Returns
    {findings, counts, webhooks}: findings as dicts of Finding, the worst first, without UNMAPPED
    and ALONE, and the number of each of KINDS. The webhooks are `deployed`, or `rendered` if the
    cluster has none. Raises FairleadError if objects cannot be read or OPA fails.
    """
    webhooks = asked.of_cluster(cluster, settings.enforced(), folder)
    inventory = Inventory(cluster, progress)
    subjects = inventory.subjects
    reviews = [review for subject in subjects for review in subject.reviews]
    decided = batch.decide(
        reviews,
        modules=bundles.bundle(settings.enforced(), folder).modules,
        kubernetes=inventory.data(settings.replicate),
        progress=progress,
    )
    admissions = asked.ask(
        webhooks, reviews, inventory.namespaces, complete=True, progress=progress
    )
    answers = iter(zip(decided, admissions, strict=True))
    findings = [
        judge(subject, [next(answers) for _ in subject.reviews], inventory.nodes)
        for subject in subjects
    ]
    counts = Counter(finding.finding for finding in findings)
    shown = [finding for finding in findings if finding.finding not in (UNMAPPED, ALONE)]
    shown.sort(key=lambda f: (KINDS.index(f.finding), f.namespace, f.kind, f.name))
    return {
        "findings": [asdict(finding) for finding in shown],
        "counts": {kind: counts[kind] for kind in KINDS},
        "webhooks": "deployed" if webhooks.deployed else "rendered",
    }


def judge(
    subject: Subject,
    answers: Sequence[tuple[Decision, Asked]],
    nodes: Mapping[str, Mapping[str, str]],
) -> Finding:
    """The finding that follows from the decisions on the subject's reviews, and from whether OPA is
    asked for them. `nodes` has the labels of each existing node, by name.
    """
    decided = [_without_opa(*answer) for answer in answers]
    missed = [
        admission.reason
        for decision, admission in answers
        if not admission.asked and (decision.patch or not decision.allowed)
    ]
    pool = decided[0].pool if decided else None
    selector = decided[0].selector if decided else {}
    labels = nodes.get(subject.node or "")
    elsewhere = [
        f"{k}={v}" for k, v in sorted(selector.items()) if labels is not None and labels.get(k) != v
    ]
    refusals = [decision.message for decision in decided if not decision.allowed]
    patch = next((decision.patch for decision in decided if decision.patch), ())
    if not decided:
        finding, message = ALONE, ""
    elif elsewhere:
        runs = f"runs on {subject.node}, which is not labelled {', '.join(elsewhere)}"
        finding, message = (
            OUTSIDE,
            "; ".join((runs, *(f"{REFUSED}: {refusal}" for refusal in refusals[:1]))),
        )
    elif refusals:
        finding, message = REFUSED, refusals[0]
    elif patch:
        finding, message = CHANGED, described(patch)
    elif missed and pool is not None:
        finding, message = NOT_ASKED, missed[0]
    else:
        finding, message = (UNMAPPED if pool is None else PLACED), ""
    called = not answers or any(admission.asked for _, admission in answers)
    return Finding(
        namespace=subject.namespace,
        kind=subject.kind,
        name=subject.name,
        pool=pool,
        node=subject.node,
        finding=finding,
        message=message,
        asked=called,
        reason="" if called else answers[0][1].reason,
    )


def _without_opa(decision: Decision, admission: Asked) -> Decision:
    """The decision that counts: if OPA is not asked, that of the API server alone."""
    if admission.asked:
        return decision
    message = admission.reason if admission.refused else ""
    return replace(decision, allowed=not admission.refused, message=message, warnings=(), patch=())

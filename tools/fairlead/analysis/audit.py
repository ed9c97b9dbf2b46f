"""Audits a cluster, for instance before Fairlead is deployed: which objects the policies would
change or refuse, and which pods run outside their pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlead.analysis import batch
from fairlead.analysis.batch import Decision, described
from fairlead.analysis.inventory import Inventory, Subject
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.policy import bundles
from fairlead.settings.models import Settings

OUTSIDE = "outside its pool"
REFUSED = "would be refused"
CHANGED = "would change"
PLACED = "placed"
UNMAPPED = "not mapped"
ALONE = "left alone"
KINDS = (OUTSIDE, REFUSED, CHANGED, PLACED, UNMAPPED, ALONE)
"""The findings on a pod or a template, the worst first. The last two are only counted."""

VIOLATIONS = (OUTSIDE, REFUSED)


@dataclass(frozen=True)
class Finding:
    """The finding on a pod or a template. `pool` is the pool of its namespace, `node` the node that
    a pod runs on.
    """

    namespace: str
    kind: str
    name: str
    pool: str | None
    node: str | None
    finding: str
    message: str


def audit(
    cluster: Cluster, settings: Settings, folder: Path | None = None, *, progress: Progress
) -> dict[str, Any]:
    """Evaluate the policies (of `folder`, or the checkout's) on every pod and template of
    `cluster`, as if all intents were enforced.

    Fairlead need not be deployed in the cluster; the right to list objects is enough. Returns
    {findings, counts}: findings as dicts of Finding, the worst first, without UNMAPPED and ALONE,
    and the number of each of KINDS. Raises FairleadError if objects cannot be read or OPA fails.
    """
    inventory = Inventory(cluster, progress)
    subjects = inventory.subjects
    decided = iter(
        batch.decide(
            [review for subject in subjects for review in subject.reviews],
            modules=bundles.bundle(settings.enforced(), folder).modules,
            kubernetes=inventory.data(settings.replicate),
            progress=progress,
        )
    )
    findings = [
        judge(subject, [next(decided) for _ in subject.reviews], inventory.nodes)
        for subject in subjects
    ]
    counts = Counter(finding.finding for finding in findings)
    shown = [finding for finding in findings if finding.finding not in (UNMAPPED, ALONE)]
    shown.sort(key=lambda f: (KINDS.index(f.finding), f.namespace, f.kind, f.name))
    return {
        "findings": [asdict(finding) for finding in shown],
        "counts": {kind: counts[kind] for kind in KINDS},
    }


def judge(
    subject: Subject, decided: Sequence[Decision], nodes: Mapping[str, Mapping[str, str]]
) -> Finding:
    """The finding that follows from the decisions on the subject's reviews. `nodes` has the labels
    of each existing node, by name.
    """
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
    else:
        finding, message = (UNMAPPED if pool is None else PLACED), ""
    return Finding(
        subject.namespace, subject.kind, subject.name, pool, subject.node, finding, message
    )

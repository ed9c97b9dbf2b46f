"""Audits a cluster before the policies are switched on: what they would change, refuse or find
outside its pool."""

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
"""What can be found of a pod or a template, the worst first; the last two are counted only."""

VIOLATIONS = (OUTSIDE, REFUSED)


@dataclass(frozen=True)
class Finding:
    """What was found of a pod or a template; `pool` decides on it, and `node` is where a pod
    runs now.
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
    """Judge every pod and template of `cluster` by the policies (of `folder`, or the project's),
    each one enforced.

    The cluster needs no deployment, only the right to list what is read. Returns {findings,
    counts}: a list of Finding, the worst first, without those that no pool decides on, and how many
    there are of each of KINDS. Raises FairleadError where something cannot be read or decided.
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
    """What the decisions on the subject's reviews come to, where `nodes` has the labels of each
    node that is there.
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

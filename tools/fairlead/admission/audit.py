"""Audits a cluster, for instance before Fairlead is deployed: which objects the policies would
change or refuse, and which pods run outside their pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.admission import asked, batch, reduced_reviews
from fairlead.admission.asked import Asked
from fairlead.admission.batch import described
from fairlead.admission.decisions import Decision
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.policy.policy_set import PolicySet

OUTSIDE = "outside its pool"
REFUSED = "would be refused"
CHANGED = "would change"
NOT_ASKED = "not asked"
PLACED = "placed"
UNMAPPED = "not mapped"
ALONE = "left alone"
KINDS = (OUTSIDE, REFUSED, CHANGED, NOT_ASKED, PLACED, UNMAPPED, ALONE)
"""The findings on an object, the worst first. The last two are only counted."""

VIOLATIONS = (OUTSIDE, REFUSED)


@dataclass(frozen=True)
class Finding:
    """The finding on an object. `pool` is the pool of its namespace, `node` the node that
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


@dataclass(frozen=True)
class Answer:
    """The decision of all intents on a review, and what the API server makes of those that it asks
    for.
    """

    decision: Decision
    effective: Decision
    admission: Asked

    @property
    def missed(self) -> Iterator[str]:
        """Why OPA is not asked for what it would refuse or patch."""
        if not self.admission.asked:
            if self.decision.patch or not self.decision.allowed:
                yield self.admission.reason
            return
        for intent, decided in self.decision.intents.items():
            if intent not in self.effective.intents and (decided["deny"] or decided["patch"]):
                yield f"no webhook of {intent} asks OPA"


def audit(cluster: Cluster, policies: PolicySet, *, progress: Progress) -> dict[str, Any]:
    """Evaluate the policies on every pod and template of `cluster`, and on all objects of other
    kinds that they are about, as if all intents were enforced, where the API server asks OPA.

    Fairlead need not be deployed in the cluster; the right to list objects is enough. Returns
    {findings, counts, webhooks}: findings as dicts of Finding, the worst first, without UNMAPPED
    and ALONE, and the number of each of KINDS. The webhooks are `deployed`, or `rendered` if the
    cluster has none. Raises FairleadError if objects cannot be read or OPA fails.
    """
    policies = policies.under(policies.settings.enforced())
    webhooks = asked.of_cluster(cluster, policies)
    inventory = Inventory(cluster, progress, further_kinds(policies.active))
    subjects = inventory.subjects
    reviews = [review for subject in subjects for review in subject.reviews]
    admissions = asked.ask(
        webhooks, reviews, inventory.namespaces, complete=True, progress=progress
    )
    answers = decide(
        reviews,
        admissions,
        modules=policies.modules,
        kubernetes=inventory.data(policies.settings.replicate),
        progress=progress,
    )
    next_answer = iter(answers)
    findings = [
        judge(subject, [next(next_answer) for _ in subject.reviews], inventory.nodes)
        for subject in subjects
    ]
    counts = Counter(finding.finding for finding in findings)
    reported = [finding for finding in findings if finding.finding not in (UNMAPPED, ALONE)]
    reported.sort(key=lambda f: (KINDS.index(f.finding), f.namespace, f.kind, f.name))
    return {
        "findings": [asdict(finding) for finding in reported],
        "counts": {kind: counts[kind] for kind in KINDS},
        "webhooks": "deployed" if webhooks.deployed else "rendered",
    }


def decide(
    reviews: Sequence[Mapping[str, Any]], admissions: Sequence[Asked], **options: Any
) -> list[Answer]:
    """The answers to reviews that an API server asks OPA about as `admissions` say; `options` are
    those of batch.decide.
    """
    decisions = batch.decide(reviews, **options)
    partly = [
        number
        for number, (decision, admission) in enumerate(zip(decisions, admissions, strict=True))
        if admission.asked
        and not (
            admission.asks_for(decision.intents)
            and reduced_reviews.reduced(reviews[number]) is reviews[number]
        )
    ]
    questions = [admissions[number].question(reviews[number]) for number in partly]
    asked_again = batch.decide(questions, **options) if questions else []
    effective = {**dict(enumerate(decisions)), **dict(zip(partly, asked_again, strict=True))}
    return [
        Answer(decision, effective[number].admitted(admission), admission)
        for number, (decision, admission) in enumerate(zip(decisions, admissions, strict=True))
    ]


def judge(
    subject: Subject,
    answers: Sequence[Answer],
    nodes: Mapping[str, Mapping[str, str]],
) -> Finding:
    """The finding that follows from the decisions on the subject's reviews, and from whether OPA is
    asked for them. `nodes` has the labels of each existing node, by name.
    """
    decided = [answer.effective for answer in answers]
    missed = [reason for answer in answers for reason in answer.missed]
    pool = decided[0].pool if decided else None
    selector = decided[0].selector if decided else {}
    labels = nodes.get(subject.node or "")
    unmet = [
        f"{k}={v}" for k, v in sorted(selector.items()) if labels is not None and labels.get(k) != v
    ]
    refusals = [decision.message for decision in decided if not decision.allowed]
    patch = next((decision.patch for decision in decided if decision.patch), ())
    if not decided:
        finding, message = ALONE, ""
    elif unmet:
        runs = f"runs on {subject.node}, which is not labelled {', '.join(unmet)}"
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
        finding, message = (UNMAPPED if pool is None else PLACED) if subject.runs else ALONE, ""
    called = not answers or any(answer.admission.asked for answer in answers)
    return Finding(
        namespace=subject.namespace,
        kind=subject.kind,
        name=subject.name,
        pool=pool,
        node=subject.node,
        finding=finding,
        message=message,
        asked=called,
        reason="" if called else answers[0].admission.reason,
    )

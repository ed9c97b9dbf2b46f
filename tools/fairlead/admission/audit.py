"""Audits a cluster, for instance before Fairlead is deployed: which objects the policies would
change or refuse, and which pods run outside their pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fairlead.admission import asked, batch, earlier_pools, reduced_reviews
from fairlead.admission.asked import Asked
from fairlead.admission.batch import described
from fairlead.admission.decisions import Decision, refused
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews
from fairlead.kube.api_requests import ApiRequests
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

_GIVEN = tuple(f"/spec/{field}" for field in earlier_pools.FIELDS)
_RESTARTED = ("Deployment", "StatefulSet")
"""The kinds of workloads whose pods are all made again by `kubectl rollout restart`."""


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
    kinds that they are about, as if all intents were enforced, where the API server asks OPA. Where
    intents have no webhooks in the cluster yet, those of a deployment count.

    Fairlead need not be deployed in the cluster; the right to list objects is enough. Returns
    {findings, counts, webhooks, undeployed}: findings as dicts of Finding, the worst first, without
    UNMAPPED and ALONE, and the number of each of KINDS. The webhooks are `deployed`, or `rendered`
    if the cluster has none. If it has some, `undeployed` names the intents without any. Raises
    FairleadError if objects cannot be read or OPA fails.
    """
    policies = policies.under(policies.settings.enforced())
    webhooks = asked.foreseen(cluster, policies)
    pools = earlier_pools.of_cluster(cluster, policies.settings)
    api = ApiRequests(cluster.kubeconfig)
    inventory = Inventory(api, progress, further_kinds(policies.active), pools)
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
        "undeployed": list(webhooks.undeployed),
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
    called = not answers or any(answer.admission.asked for answer in answers)
    finding, message = _found(subject, answers, nodes.get(subject.node or ""))
    return Finding(
        namespace=subject.namespace,
        kind=subject.kind,
        name=subject.name,
        pool=decided[0].pool if decided else None,
        node=subject.node,
        finding=finding,
        message=message,
        asked=called,
        reason="" if called else answers[0].admission.reason,
    )


def _found(
    subject: Subject, answers: Sequence[Answer], labels: Mapping[str, str] | None
) -> tuple[str, str]:
    """The finding and its message; `labels` are those of the pod's node, None without one."""
    decided = [answer.effective for answer in answers]
    if not decided:
        return ALONE, ""
    is_current = has_its_pool(subject, answers[0].decision)
    advice = "" if subject.stored is None or is_current else _advice(subject)
    missed = [] if is_current else [reason for answer in answers for reason in answer.missed]
    at = refused(decided)
    refusal = "" if at is None else decided[at].message
    if unmet := lacking_labels(decided[0].selector, labels):
        return OUTSIDE, _sentences(
            f"runs on {subject.node}, which is not labelled {', '.join(unmet)}",
            f"{REFUSED}: {refusal}" if at is not None else advice,
        )
    if at is not None:
        return REFUSED, refusal
    if changes := _changes(subject, decided, is_current=is_current):
        return CHANGED, _sentences(changes, advice, *(f"{NOT_ASKED}: {m}" for m in missed[:1]))
    if missed:
        return NOT_ASKED, missed[0]
    if not subject.runs or (decided[0].pool is None and decided[0].excepted):
        return ALONE, ""
    return (UNMAPPED if decided[0].pool is None else PLACED), ""


def lacking_labels(selector: Mapping[str, str], labels: Mapping[str, str] | None) -> list[str]:
    """What the node's labels lack of the pool's; nothing of a pod without a node."""
    if labels is None:
        return []
    return [f"{key}={value}" for key, value in sorted(selector.items()) if labels.get(key) != value]


def has_its_pool(subject: Subject, decision: Decision) -> bool:
    """Whether the pod has what its pool gives, and has it from Fairlead."""
    if subject.stored is None or not decision.allowed:
        return False
    spec = subject.reviews[0]["request"]["object"]["spec"]
    pool_fields = {field: spec[field] for field in earlier_pools.FIELDS if field in spec}
    patch = [operation for operation in decision.patch if _is_of_pools(operation)]
    patched = admission_reviews.apply(patch, {"spec": pool_fields})
    return earlier_pools.given(patched["spec"]) == earlier_pools.given(subject.stored)


def beside_pools(patch: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The operations of a patch but those of the fields that pools give."""
    return [operation for operation in patch if not _is_of_pools(operation)]


def _is_of_pools(operation: Mapping[str, Any]) -> bool:
    return bool(operation["path"].startswith(_GIVEN))


def _changes(subject: Subject, decided: Sequence[Decision], *, is_current: bool) -> str:
    """What would be added to the object, or else to its pods; nothing that it has already."""
    for review, decision in reversed([*zip(subject.reviews, decided, strict=True)]):
        patch = beside_pools(decision.patch) if is_current else decision.patch
        if patch:
            of_pods = "" if review["request"]["kind"]["kind"] == subject.kind else "its pods: "
            return f"{of_pods}{described(patch)}"
    return ""


def _advice(subject: Subject) -> str:
    """How to have a pod placed anew that an earlier pool placed."""
    if subject.made_by is None:
        remedy = "delete it, and create it again"
    elif subject.made_by[0] in _RESTARTED:
        remedy = f"delete the pod, or restart {' '.join(subject.made_by)}"
    else:
        remedy = f"delete the pod: {' '.join(subject.made_by)} makes it again"
    return f"an earlier pool placed it: {remedy}"


def _sentences(*parts: str) -> str:
    return "; ".join(filter(None, parts))

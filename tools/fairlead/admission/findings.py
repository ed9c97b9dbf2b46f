"""What is wrong with the objects of a cluster, by namespace and intent: continuous findings, a part
of `fairlead controller`.

A finding is an object that the policies in force would refuse, or that lacks what they add. It came
in before them, by an exception, or while no webhook asked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from fairlead.admission import asked, audit
from fairlead.admission.audit import Answer
from fairlead.admission.batch import described
from fairlead.admission.earlier_pools import Pools
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.admission.judgements import Judgements
from fairlead.common import texts
from fairlead.common.digests import digest
from fairlead.common.progress import Progress
from fairlead.deployment import history_log
from fairlead.deployment.controller import CHECKED
from fairlead.deployment.names import FINDINGS_LEASE, NAMESPACE
from fairlead.keeper.lease import Lease
from fairlead.keeper.regular import Regular
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.clients import Objects
from fairlead.opa import cli
from fairlead.operations import deployed_state, drift, finding_reports
from fairlead.operations.finding_reports import FAIL, WARN, Collected, Finding
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import plain
from fairlead.settings.models import Settings

NODE_POOL = "node-pool"
SETTLED = 30.0
"""Seconds after a change of the policies: mostly, another one follows at once or never."""
_LOOKED = "fairlead.dev/findings"
"""The annotation of the Lease that says who looked last, at which revision, and when."""
_LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": FINDINGS_LEASE, "namespace": NAMESPACE},
}
PAGE, MOST = 100, 8 * 2**20
"""Objects, and bytes, of one page of a list: the memory of the controller is limited."""
_WITHIN = 3600.0
"""Seconds for a pass through the cluster."""
_NAMESPACES = 100
"""The namespaces that metrics name: those with the most findings."""
OTHERS = "(others)"
"""Stands in metrics for all other namespaces."""


class Findings(Regular):
    """Audits the cluster `every` so often, and when the policies have changed. Of several replicas,
    one does.
    """

    name = "findings"
    pause = 5.0
    failing = "findings cannot be kept up to date"

    def __init__(
        self,
        objects: Objects,
        api: ApiRequests,
        *,
        every: timedelta,
        replica: str,
        registry: CollectorRegistry,
        settled: float = SETTLED,
    ) -> None:
        """`api` lists the objects of the cluster. Policies count as changed once they have stayed
        the same for `settled` seconds.
        """
        super().__init__(objects)
        self._api = api
        self._every = every
        self._replica = replica
        self._lease = Lease(objects, replica, name=FINDINGS_LEASE, restored=True)
        self._settled = settled
        self._current = ("", 0.0)
        self._context = ""
        self._remembered: dict[bytes, Answer] = {}
        self._gauge = Gauge(
            "fairlead_findings",
            "Objects that policies would refuse, or that lack what they add, when a controller "
            "last looked.",
            ["intent", "namespace", "result"],
            registry=registry,
        )

    def look(self) -> None:
        """Audit the cluster if that is due. Raises FairleadError."""
        config_map = deployed_state.config_map(self._objects)
        if config_map is None:
            return
        revision = bundles.revision(config_map["data"])
        if self._current[0] != revision:
            self._current = revision, time.monotonic()
        if time.monotonic() - self._current[1] < self._settled or not self._is_due(revision):
            return
        with self._lease.attempt() as leading:
            if not leading or not self._is_due(revision):
                return
            self._current = revision, time.monotonic()  # if it fails, not again at once
            collected = self._collected(config_map)
            finding_reports.write(self._objects, collected)
            self._measure(collected)
            looked = f"{revision} {texts.now()} {self._replica}"
            self._objects.merge(_LEASE, {"metadata": {"annotations": {_LOOKED: looked}}})

    def _is_due(self, revision: str) -> bool:
        """Whether nobody has looked at what is in force for so long."""
        lease = self._objects.get(_LEASE["apiVersion"], _LEASE["kind"], FINDINGS_LEASE, NAMESPACE)
        annotations = ((lease or {}).get("metadata") or {}).get("annotations") or {}
        looked = annotations.get(_LOOKED, "").split(" ")
        if looked[2:] != [self._replica]:
            self._gauge.clear()  # another one counts now
        if len(looked) < 3 or looked[0] != revision:
            return True
        return datetime.now(UTC) - datetime.fromisoformat(looked[1]) >= self._every

    def _collected(self, config_map: Mapping[str, Any]) -> Collected:
        """The findings about the objects of the cluster."""
        settings = drift.settings(config_map)
        policies = PolicySet.deployed(config_map["data"], settings)
        webhooks = asked.in_force(self._objects)
        pools = Pools(settings, *history_log.earlier_settings(self._objects))
        kinds = further_kinds(policies.active)
        inventory = Inventory(self._api, Progress(), kinds, pools, lenient=True)
        # What is replicated decides, too, and is not compared.
        what_decides = None if settings.replicate else (config_map["data"], webhooks)
        context = digest(repr(what_decides).encode())
        judgements = Judgements(
            webhooks,
            plain(bundles.modules_of(config_map["data"])),
            inventory.data(settings.replicate),
            self._remembered if what_decides and context == self._context else {},
        )
        collected = Collected()
        with cli.limits(seconds=_WITHIN, memory=CHECKED):
            for subject, answers in judgements.of(inventory.each()):
                for finding in of_subject(subject, answers, inventory.nodes, settings):
                    collected.add(finding)
        self._context, self._remembered = context, judgements.used
        return collected

    def _measure(self, collected: Collected) -> None:
        self._gauge.clear()
        totals = Counter[str]()
        for (namespace, _), counts in collected.counts.items():
            totals[namespace] += counts.total()
        most_affected = {namespace for namespace, _ in totals.most_common(_NAMESPACES)}
        for (namespace, intent), counts in collected.counts.items():
            shown = namespace if namespace in most_affected else OTHERS
            for result, count in counts.items():
                self._gauge.labels(intent, shown, result).inc(count)


def of_subject(
    subject: Subject,
    answers: Sequence[Answer],
    nodes: Mapping[str, Mapping[str, str]],
    settings: Settings,
) -> Iterator[Finding]:
    """What is wrong with an object, by the answers to its reviews. `nodes` has the labels of each
    node.
    """
    by_result: dict[tuple[str, str], list[str]] = {}

    def reasons_of(intent: str) -> list[str]:
        result = WARN if settings.mode(intent) == "warn" else FAIL
        return by_result.setdefault((intent, result), [])

    for review, answer in zip(subject.reviews, answers, strict=True):
        is_own = review["request"]["kind"]["kind"] == subject.kind
        for intent, decided in answer.effective.intents.items():
            reasons = reasons_of(intent)
            reasons += sorted(decided["deny"])
            if is_own and (lack := _lacks(subject, answer, decided)):
                reasons.append(lack)
    labels = nodes.get(subject.node or "")
    if unmet := audit.lacking_labels(answers[0].effective.selector, labels) if answers else []:
        outside = f"runs on {subject.node}, which is not labelled {', '.join(unmet)}"
        reasons_of(NODE_POOL).insert(0, outside)
    for (intent, result), reasons in by_result.items():
        if reasons:
            message = "; ".join(dict.fromkeys(reasons))
            version = subject.reviews[-1]["request"]["object"]["apiVersion"]
            yield Finding(
                subject.namespace, intent, result, version, subject.kind, subject.name, message
            )


def _lacks(subject: Subject, answer: Answer, decided: Mapping[str, Any]) -> str:
    """What the intent would add to a stored object; empty for nothing."""
    patch = decided["patch"]
    if audit.has_its_pool(subject, answer.decision):
        patch = audit.beside_pools(patch)
    return f"it lacks what a new one gets: {described(patch)}" if patch else ""

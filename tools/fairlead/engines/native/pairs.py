"""Deployments of two engines: one enforces the policies, and the other, its shadow, decides beside
it without effect. `fairlead shadow` compares them, and reports in a ConfigMap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, shadowing, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import NAMESPACE, SHADOW
from fairlead.deployment.shadowing import REPORT, Engines, Pair
from fairlead.engines.native import bring, deployment, record
from fairlead.engines.native import status as native_status
from fairlead.engines.native.record import Record
from fairlead.kube import clients
from fairlead.operations import applying, deployed_state, drift, problems, push
from fairlead.operations import status as opa_status
from fairlead.operations.applying import Applier, Outcome
from fairlead.policy.bundles import Bundle
from fairlead.settings.models import Settings

SILENCE = 180.0
"""Seconds without a report after which the shadow counts as away: it reports every minute."""


@dataclass(frozen=True)
class Paired:
    """Two engines that are about to be deployed. `beside` are the objects of the one that runs in
    pods, and of what compares the two.
    """

    pair: Pair
    record: Record
    beside: Sequence[dict[str, Any]]

    @classmethod
    def made(
        cls,
        cluster: Cluster,
        engines: Engines,
        sidecar: str | None,
        settings: Settings,
        folder: Path | None,
        *,
        progress: Progress,
    ) -> Paired | None:
        """None for a single engine. `sidecar` names what is to run in the pods, by default what
        runs there. Raises as record.paired.
        """
        if not engines.shadow:
            return None
        running = sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar
        pair, new = record.paired(engines, running, settings, folder, progress=progress)
        beside = manifests.render_objects(
            settings,
            Bundle(new.manifest["data"]),
            Credentials("", b"", b"", b""),
            sidecar=running,
            pair=pair,
        )
        return cls(pair, new, beside)

    def require_acceptable(self, cluster: Cluster) -> None:
        """Raises UsageError if the API server does not accept a policy of `cel`."""
        bring.require_served(cluster, self.record)
        applying.require_acceptable(cluster.objects(), self.record.objects)

    def planned(
        self, cluster: Cluster, planned: Sequence[Outcome], *, progress: Progress
    ) -> Iterator[Outcome]:
        """What a deployment would do to each object, with `planned`, which is about the pods."""
        if self.pair.engines.enforcing in record.ASKED:
            objects = cluster.objects()
            yield from planned
            yield from (applying.preview(objects, each) for each in self.record.shadow)
            return
        ours = deployment.plan(cluster, self.record, self.beside, progress=progress)
        yield from ours
        known = {(each.kind, each.name, each.namespace) for each in ours}
        yield from (each for each in planned if (each.kind, each.name, each.namespace) not in known)


def settle(cluster: Cluster, before: dict[str, Any] | None, *, progress: Progress) -> list[str]:
    """Bring the shadow to the policies that are deployed now, `before` with another ConfigMap; if
    they have none, end it. Returns what went wrong, as the policies are in force.
    """
    objects = cluster.objects()
    after = record.deployed(objects)
    if after is None or not Engines.of(before).shadow:
        return []
    applier = Applier(objects)
    asked = Engines.of(after).enforcing in record.ASKED
    try:
        if not Engines.of(after).shadow:
            _end(cluster, applier, after)
            return [
                f"the shadow {Engines.of(before).shadow} has ended, as these policies had none: "
                f"run `fairlead deploy --engine {Engines.of(before)}` to compare it with them"
            ]
        if asked:
            new = record.of_cluster(cluster, after)
            bring.bring_beside(cluster, applier, new, progress=progress)
        elif credentials := deployed_state.credentials(objects):
            return [*push.updated_admission(cluster, objects, before or {}, after, credentials)]
    except FairleadError as error:
        return [f"the shadow does not have these policies: run `fairlead deploy` ({error})"]
    return []


def _end(cluster: Cluster, applier: Applier, config_map: dict[str, Any]) -> None:
    if Engines.of(config_map).enforcing not in record.ASKED:
        deployment.leave_pods(cluster, applier, config_map)
        return
    for key in shadowing.SERVER_OBJECTS:
        applier.delete(*key)
    bring.leave(applier.objects, applier)
    cluster.shadow(None, progress=Progress())


def status(cluster: Cluster, config_map: Mapping[str, Any]) -> dict[str, Any]:
    """The cluster's state; see fairlead.operations.status.status. Its `shadow` is what `shadow_of`
    returns. Raises FairleadError if the API server does not answer.
    """
    document = opa_status.status(cluster)
    objects = cluster.objects()
    if Engines.of(config_map).enforcing in record.ASKED:
        ours = _compared(cluster, objects, config_map)
        more: dict[str, Any] = {
            "objects": opa_status.documents(ours),
            "problems": [*problems.of_objects(ours)],
        }
    else:
        more = native_status.status(cluster, config_map)
        document |= {key: more[key] for key in ("engine", "disabled")}
    known = {(each["kind"], each["name"], each["namespace"]) for each in document["objects"]}
    document["objects"] += [
        each
        for each in more["objects"]
        if (each["kind"], each["name"], each["namespace"]) not in known
    ]
    shadow, wrong = shadow_of(objects, config_map)
    every = [*document["problems"], *more["problems"], *wrong]
    return {**document, "shadow": shadow, "problems": [*dict.fromkeys(every)]}


def _compared(
    cluster: Cluster, objects: clients.Objects, config_map: Mapping[str, Any]
) -> drift.Comparison:
    """The objects of `cel` beside an engine that enforces the policies."""
    try:
        deployed = record.of_cluster(cluster, config_map)
    except FairleadError as error:
        return drift.Comparison(error=str(error))
    return drift.Comparison(tuple(drift.compared(objects, each) for each in deployed.shadow))


def shadow_of(
    objects: clients.Objects, config_map: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """What the shadow reports, and what is wrong with it: {engine, enforcing, since, at, intents}.

    `since` is when it began to count, which it does anew with each revision, and `at` when it
    reported (RFC 3339), both None if it has not reported on this revision. `intents` has
    {intent, compared, agreed, disagreed: {kind: count}, failed, failure, skipped, examples} each:
    see fairlead.engines.shadow.report.
    """
    engines = Engines.of(config_map)
    shown: dict[str, Any] = {
        "engine": engines.shadow,
        "enforcing": engines.enforcing,
        "since": None,
        "at": None,
        "intents": [],
    }
    written = objects.get("v1", "ConfigMap", SHADOW, NAMESPACE) or {}
    try:
        report = json.loads((written.get("data") or {})[REPORT])
        silent = (datetime.now(UTC) - datetime.fromisoformat(report["at"])).total_seconds()
        if report["engines"] == str(engines):
            shown |= {key: report[key] for key in ("since", "at", "intents")}
    except (KeyError, TypeError, ValueError):
        return shown, [
            f"the shadow {engines.shadow} has not reported yet: wait a minute, and see whether "
            f"{SHADOW} runs"
        ]
    if silent > SILENCE:
        return shown, [
            f"the shadow {engines.shadow} has not reported since {report['at']}: see whether "
            f"{SHADOW} runs"
        ]
    if report.get("trouble"):
        return shown, [f"the shadow {engines.shadow} cannot compare: {report['trouble']}"]
    return shown, []

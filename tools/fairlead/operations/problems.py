"""The sentences in `problems` of `fairlead status`. Warnings about certificates that are still
valid are in certificate_status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.common import texts
from fairlead.deployment.disabled_intents import Disabled
from fairlead.deployment.names import NAMESPACE, OPA_ENGINE, POLICIES, PYTHON_ENGINE
from fairlead.deployment.names import WEBHOOKS as ENFORCING
from fairlead.operations.deployed_state import Served
from fairlead.operations.drift import DIFFERS, DISABLED, MISSING, UNKNOWN, WEBHOOKS, Comparison
from fairlead.operations.orphaned_modules import Orphan
from fairlead.operations.replication_lag import Lag
from fairlead.pki import certificates

STALE = 90.0
"""Seconds after which unconfirmed data are a problem; with watches of a minute, data are up to 70 s
old."""
_NO_REVISION = {
    OPA_ENGINE: "serves no policies of Fairlead",
    PYTHON_ENGINE: "has workers that do not have the revision of the others yet",
}
OVERDUE = timedelta(seconds=30)
"""The time after its end in which a disabled intent is enabled: several looks of the controller."""
_UNASKED = (MISSING, UNKNOWN, DISABLED)
"""The states of a webhook that asks nobody, or of which nobody knows it."""
_SHOWN = 5
"""The number of names of a list that are shown."""


def of_opas(states: Sequence[Served], replicas: int, noun: str = "OPA") -> Iterator[str]:
    """Problems of the servers that decide: fewer than `replicas`, not Ready, or on different
    revisions.
    """
    if len(states) < replicas:
        yield f"{len(states)} of {texts.counted(replicas, noun)} run"
    for state in states:
        if state.error:
            yield f"{_opa(state)} cannot be asked: {state.error}"
        elif not state.ready:
            yield f"{_opa(state)} is not Ready; {state.trouble or _age(state)}"
        elif state.revision is None:
            yield f"{_opa(state)} {_NO_REVISION[state.opa.engine]}"
    revisions = sorted({state.revision for state in states if state.revision})
    if len(revisions) > 1:
        yield f"{noun}s serve different revisions: {', '.join(revisions)}"


def of_silence(
    states: Sequence[Served], comparison: Comparison, noun: str = "OPA"
) -> Iterator[str]:
    """What follows if no server that decides answers, by the webhooks in the cluster that ask.

    An API server also asks a single server that is not Ready, if it has a revision.
    """
    asking = [
        entry
        for entry in comparison.objects
        if entry.kind in WEBHOOKS and entry.name == ENFORCING and entry.state not in _UNASKED
    ]
    if not asking or any(
        state.ready or (not state.error and state.revision and len(states) == 1) for state in states
    ):
        return
    if any(webhook.failure_policy == "Fail" for webhook in asking):
        yield (
            f"no {noun} answers, so API servers refuse new pods in mapped namespaces, and whatever "
            'else they ask about. If that cannot wait, run `fairlead disable --reason "..."`'
        )
    else:
        yield (f"no {noun} answers, so API servers admit pods unplaced: failurePolicy is Ignore")


def of_sidecars(
    states: Sequence[Served], sidecars: Sequence[Mapping[str, Any]] | None
) -> Iterator[str]:
    """Sidecars that are missing or not healthy, with the age of their OPA's data; `sidecars` is
    None if they do not report their health.
    """
    by_pod = {sidecar["pod"]: sidecar for sidecar in sidecars or ()}
    for state in states:
        sidecar = by_pod.get(state.opa.pod)
        if sidecars is None:
            continue
        if sidecar is None:
            yield f"no sidecar runs beside {_opa(state)}; {_age(state)}"
        elif not sidecar["healthy"]:
            reasons = "; ".join(sidecar["reasons"])
            yield f"the sidecar beside {_opa(state)} is not ready: {reasons}; {_age(state)}"
        elif state.age is not None and state.age > STALE:
            yield f"the sidecar beside {_opa(state)} says that it is ready, but {_age(state)}"
        for sentence in (sidecar or {}).get("leftOut") or ():
            yield (
                f"{_opa(state)} does not have all objects, because they are too large or too many "
                f"for its memory: {texts.printable(sentence)}; replicate fewer `fields` of them"
            )


def of_controllers(
    controllers: Sequence[Mapping[str, Any]],
    deployment: Mapping[str, Any] | None,
    ends: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Controllers that are missing though there is the Deployment, are not healthy, or of which
    none gives access; and `ends`, the Deployment of what ends access beside them, without a pod.
    """
    if deployment and not controllers:
        access = ". Access does not begin, and what has begun ends 30 s late" if ends else ""
        yield (
            "no controller runs: nothing renews OPA's certificate, or enables an intent whose time "
            f"is over{access}"
        )
    if (
        ends
        and ends["spec"].get("replicas")
        and not (ends.get("status") or {}).get("readyReplicas")
    ):
        yield (
            f"no pod of the Deployment {ends['metadata']['name']} is ready: while the controller "
            "is down, no access ends"
        )
    for controller in controllers:
        if not controller["healthy"]:
            reasons = "; ".join(controller["reasons"])
            yield f"the controller {controller['pod']} is not ready: {reasons}"
    if ends and controllers and not any(controller["leading"] for controller in controllers):
        yield (
            "no controller holds the Lease yet: no access begins or ends until one does. If this "
            "lasts, see `fairlead logs controller`"
        )


_AGAIN = "deploy again, by `fairlead deploy` or by syncing the manifests from Git"


def of_replication(lags: Iterable[tuple[Served, Lag | None]]) -> Iterator[str]:
    """OPAs that decide by stale namespaces, as their sidecar does not update them."""
    for state, lag in lags:
        if lag:
            names = _beginning(lag.namespaces)
            age = (
                f"have been stale since {texts.time(lag.since)}, {_ago(lag.since):.0f} s ago"
                if lag.since
                else "are stale"
            )
            yield (
                f"the data of {_opa(state)} {age}: they lack the last change of "
                f"{texts.counted(len(lag.namespaces), 'namespace')} ({names}), because its sidecar "
                f"hangs; restart both: `kubectl -n {NAMESPACE} rollout restart deployment opa`"
            )


def of_policies(
    policies: Iterable[Mapping[str, Any]],
    data: Iterable[Mapping[str, Any]] = (),
) -> Iterator[str]:
    """ConfigMaps whose policies or data OPA does not have; see policy_status."""
    for rows, title, state in (
        (policies, "policies of {}", "are not in force"),
        (data, "data of {}", "are not loaded"),
    ):
        for row in rows:
            if row["status"] != "ok":
                error = f": {row['error']}" if row["error"] else ""
                yield f"{title.format(row['name'])} {state} ({row['status']}{error})"


def of_orphans(orphans: Iterable[Orphan]) -> Iterator[str]:
    """Modules that OPAs serve without a source."""
    opas: dict[str, list[str]] = {}
    users: dict[str, tuple[str, ...]] = {}
    for orphan in orphans:
        opas.setdefault(orphan.module, []).append(orphan.opa)
        users[orphan.module] = orphan.used_by
    for module, names in opas.items():
        by, user = users[module], "uses" if len(users[module]) == 1 else "use"
        consequence = (
            f", because {_beginning(by)} {user} it. An OPA that restarts loads none of these: "
            "create it again, or remove what uses it"
            if by
            else ": `fairlead push --restart` restarts every OPA, without it"
        )
        yield f"{module} was deleted, and is still in force in {_beginning(names)}{consequence}"


def of_bundles(url: str | None, config_map: Mapping[str, Any] | None) -> Iterator[str]:
    """Policies for a sidecar, in a cluster whose OPAs follow the signed bundles of a URL."""
    if url and config_map:
        yield (
            f"the ConfigMap {POLICIES} is there, but OPAs take their policies from the signed "
            f"bundles of {url}: delete it"
        )


def of_objects(comparison: Comparison) -> Iterator[str]:
    """Webhooks, guards and rights that are missing, or not as deployed."""
    if comparison.error:
        yield f"webhooks, guards and rights could not be compared: {comparison.error}"
    webhooks = [
        entry for entry in comparison.objects if entry.kind in WEBHOOKS and entry.name == ENFORCING
    ]
    if webhooks and all(webhook.state == MISSING for webhook in webhooks):
        yield "no webhook is left, so that API servers do not ask OPA: pods are created unplaced"
    unknown = [entry for entry in comparison.objects if entry.state == UNKNOWN]
    if unknown:
        yield f"{texts.counted(len(unknown), 'object')} could not be compared: {unknown[0].error}"
    for entry in comparison.objects:
        title = f"{entry.kind} {entry.name}"
        if entry.state == MISSING:
            yield f"{title} is missing: {_AGAIN}"
        elif entry.state == DIFFERS:
            yield (
                f"{title} is not what this version of Fairlead deploys "
                f"({_beginning(entry.fields)}): {_AGAIN}"
            )


def of_disabled(disabled: Disabled) -> Iterator[str]:
    """Intents that somebody disabled; what should have enabled them again by now."""
    now = datetime.now(UTC)
    for record in disabled.records.values():
        late = record.late(now)
        if late is not None and late > OVERDUE:
            yield (
                f"{record.sentence}. It was to be enabled at {record.until}, and nothing has done "
                "so: no controller runs or reaches the API server. Run `fairlead enable`"
            )
        else:
            yield record.sentence
    yield from disabled.halves


def of_certificates(dated: Mapping[str, bytes]) -> Iterator[str]:
    """Certificates that have ended."""
    for name, pem in dated.items():
        if certificates.not_after(pem) <= datetime.now(UTC):
            yield f"the certificate {name} has ended: `fairlead deploy` replaces it"


def of_servers(servers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Servers that do not run."""
    for server in servers:
        if not server["running"]:
            yield f"{server['name']} does not run"


def _beginning(names: Sequence[str]) -> str:
    """The first names of a list, in a line."""
    return texts.first(names, _SHOWN)


def _ago(time: datetime) -> float:
    return (datetime.now(UTC) - time).total_seconds()


def _opa(state: Served) -> str:
    return state.opa.pod or state.opa.url


def _age(state: Served) -> str:
    if state.error:
        return "how old its data are is not known"
    if state.confirmed is None or state.age is None:
        return "nobody has confirmed its data"
    return f"its data were last confirmed at {texts.time(state.confirmed)}, {state.age:.0f} s ago"

"""Has API servers check the final state of objects themselves, so that they ask OPA once.

The policies that do so belong to one revision, and OPAs and API servers do not change at the same
moment. So the webhook checks the final state while a revision comes into force, as without these
policies: it is there before they go, and goes once they are enforced. One of the two always checks,
and what placed an object never stays beside a check of another revision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairlead.clusters import webhook_connections
from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import final_states, manifests
from fairlead.deployment.final_states import FinalState
from fairlead.deployment.names import (
    FINAL_STATE_ANNOTATION,
    FINAL_STATE_LABEL,
    OPA_ENGINE,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.deployment.shadowing import ENGINE_ANNOTATIONS
from fairlead.engines.cel import final_state as rendering
from fairlead.engines.live import marker
from fairlead.engines.native import bring, record
from fairlead.kube import clients
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.operations import applying, deployed_state, disabling, drift
from fairlead.policy import bundles
from fairlead.settings.models import Settings

_ADMISSION = "admissionregistration.k8s.io/v1"
_KINDS = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
_ATTEMPTS = 5
_WEBHOOKS = ("ValidatingWebhookConfiguration",)


def render(
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str = OPA_ENGINE,
    progress: Progress,
) -> FinalState | None:
    """The policies that check the final state with these settings, in place of webhooks that ask
    this engine; None if webhooks alone do. Warns of intents for which none can. Raises InputError.
    """
    recorded = _recorded(_checks(settings, folder, engine, progress))
    return recorded.put(in_place=True) if recorded else None


def accepted(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    engine: str = OPA_ENGINE,
    progress: Progress,
) -> FinalState | None:
    """The same without those that the API server does not accept, such as one of a version whose
    CEL lacks a function. They are in place of the webhooks if they are so already, unchanged.
    """
    if not (checks := _checks(settings, folder, engine, progress)):
        return None
    objects = cluster.objects()
    for intent in {check.intent for check in checks}:
        policies = [check.policy for check in checks if check.intent == intent]
        try:
            applying.require_acceptable(objects, policies)
        except UsageError as error:
            _warn(progress, intent, f"the API server does not accept it ({error.__cause__})")
            checks = [check for check in checks if check.intent != intent]
    new = _recorded(checks)
    present = readable(record.deployed(objects))
    return new.put(in_place=present == new.put(in_place=True)) if new else None


def _checks(
    settings: Settings, folder: Path | None, engine: str, progress: Progress
) -> list[rendering.Check]:
    if settings.final_state == "webhook":
        return []
    active = bundles.bundle(settings, folder).active(settings)
    checks, reasons = rendering.render(active, settings, skipping=engine != OPA_ENGINE)
    for intent, reason in reasons.items():
        _warn(progress, intent, reason)
    return checks


def _recorded(checks: list[rendering.Check]) -> FinalState | None:
    objects = [each for check in checks for each in (check.policy, check.binding)]
    return FinalState(manifests.to_yaml(objects)) if objects else None


def _warn(progress: Progress, intent: str, reason: str) -> None:
    progress.warn(
        f"finalState: a webhook checks the final state for {intent}, and no admission policy: "
        f"{reason}"
    )


def prepare(cluster: Cluster, new: FinalState | None, *, progress: Progress) -> None:
    """Let webhooks check the final state before another revision comes into force, unless `new`,
    its policies, are in place of them already. Raises FairleadError.
    """
    objects = cluster.objects()
    config_map = record.deployed(objects)
    recorded, present = readable(config_map), _present(objects)
    if (new and new.in_place) or not (present or (recorded and recorded.in_place)):
        return
    if config_map and deployed_state.credentials(objects) is None:
        return  # webhooks cannot be rendered before the deployment that makes new ones
    progress.update("final state", "letting webhooks check it")
    if config_map:  # else OPA has lost its policies, and lets nothing in
        _apply_webhooks(cluster, objects, _record(config_map, in_place=False))
    for key in present:
        objects.delete(*key)
    _wait(cluster)
    if config_map:
        _write(objects, config_map, in_place=False)


def settle(cluster: Cluster, *, progress: Progress) -> list[str]:
    """Have API servers enforce the recorded policies of the revision in force, and then remove the
    webhooks in whose place they are. Returns what went wrong: then the webhooks are still there.
    """
    try:
        _settle(cluster, progress)
    except FairleadError as error:
        return [
            "a webhook checks the final state, and not admission policies: run `fairlead deploy` "
            f"({error})"
        ]
    return []


def _settle(cluster: Cluster, progress: Progress) -> None:
    objects = cluster.objects()
    config_map = record.deployed(objects)
    final_state = FinalState.of(config_map)
    if config_map is None or final_state is None or final_state.in_place:
        return
    disabled = disabling.read(objects).records
    for manifest in final_states.as_disabled(final_state.manifests, disabled):
        drift.apply_exactly(objects, manifest)
    progress.update("final state", "waiting until the API server checks it")
    _wait(cluster)
    bring.wait_for_others(progress)
    try:
        _write(objects, config_map, in_place=True)
    except FairleadError:
        for key in _present(objects):
            objects.delete(*key)
        raise
    _apply_webhooks(cluster, objects, _record(config_map, in_place=True))
    progress.finish("final state", f"checked for {', '.join(sorted(final_state.intents))}")


def _record(config_map: dict[str, Any], *, in_place: bool) -> dict[str, Any]:
    """The ConfigMap of the policies, which says whether its policies are in place of webhooks."""
    present = config_map["metadata"].get("annotations") or {}
    kept = {REVISION_ANNOTATION, SETTINGS_ANNOTATION, *ENGINE_ANNOTATIONS}
    annotations = {key: present[key] for key in kept & present.keys() - {FINAL_STATE_ANNOTATION}}
    if final_state := readable(config_map):
        annotations |= final_state.put(in_place=in_place).annotations
    return manifests.policies_of(config_map.get("data") or {}, annotations)


def _write(objects: clients.Objects, before: dict[str, Any], *, in_place: bool) -> None:
    """Write into the ConfigMap whether its policies are in place of webhooks. Sidecars may write
    their status at the same time. Raises FairleadError if `before` has other policies.
    """
    for attempt in range(_ATTEMPTS):
        present = record.deployed(objects) or {}
        recorded = [(each.get("data"), readable(each)) for each in (before, present)]
        if recorded[0] != recorded[1]:
            break
        manifest = _record(present, in_place=in_place)
        manifest["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
        try:
            objects.apply_whole(manifest)
        except Refused as error:
            if error.status != 409 or attempt == _ATTEMPTS - 1:
                raise
        else:
            return
    raise FairleadError("somebody else changed the policies at the same time")


def _apply_webhooks(cluster: Cluster, objects: clients.Objects, config_map: dict[str, Any]) -> None:
    """Apply the validating webhooks that a deployment of this ConfigMap has."""
    credentials = deployed_state.credentials(objects)
    if credentials is None:
        raise FairleadError(f"cluster {cluster.name} has lost OPA's token or certificate")
    for manifest in drift.rendered(cluster, config_map, credentials, _WEBHOOKS):
        commented = webhook_connections.with_deployed_comments(objects, manifest)
        drift.apply_exactly(objects, commented)


def readable(config_map: dict[str, Any] | None) -> FinalState | None:
    """What the ConfigMap of the policies records; None also if somebody damaged it."""
    try:
        return FinalState.of(config_map)
    except FairleadError:
        return None


def _wait(cluster: Cluster) -> None:
    """Wait until the API server enforces the admission policies that there are, and no others."""
    with marker.placed(Objects(cluster.kubeconfig)):
        pass


def _present(objects: clients.Objects) -> list[bring.Key]:
    """The policies in the cluster, the bindings first: also those of an interrupted change. Who may
    not list them has not made any.
    """
    keys: list[bring.Key] = []
    for kind in _KINDS:
        try:
            live = objects.list(_ADMISSION, kind, None, FINAL_STATE_LABEL)
        except Refused as error:
            if error.status not in (403, 404):
                raise
            continue
        keys += [(_ADMISSION, kind, str(each["metadata"]["name"]), None) for each in live]
    return keys

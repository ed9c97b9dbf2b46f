"""Compares the webhooks, guards and rights in a cluster with what a deployment by its settings
applies."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.deployment import disabled_objects, manifests, ownership
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import (
    NAMESPACE,
    OPA,
    POLICIES,
    SETTINGS_ANNOTATION,
)
from fairlead.keeper import trust
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deployed_state, history, object_comparison
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
GUARDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
RIGHTS = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
MUTATING = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")
COMPARED = (*WEBHOOKS, *GUARDS, *MUTATING, *RIGHTS)
"""The kinds of objects that decide which requests OPA sees, what holds without it, and who may
change that."""

AS_DEPLOYED, DIFFERS, MISSING, UNKNOWN = "as deployed", "differs", "missing", "unknown"
DISABLED = "disabled"
"""As deployed, except that `fairlead disable` switched the object off, in whole or in part."""

ADMISSION = "admissionregistration.k8s.io/v1"
_ATTEMPTS = 5
_SWITCHED = (
    *WEBHOOKS,
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
)


@dataclass(frozen=True)
class Compared:
    """An object of the deployment, and what became of it.

    `fields` are the paths that differ, such as `webhooks[node-pool.fairlead.dev].failurePolicy`.
    `failure_policy` is the one in the cluster, of a guard or of a configuration's first webhook.
    `error` says why an unknown object cannot be read. `manifest` is what a deployment applies, and
    `live` what is there.
    """

    kind: str
    name: str
    namespace: str | None
    state: str
    fields: tuple[str, ...] = ()
    failure_policy: str | None = None
    error: str | None = None
    manifest: Mapping[str, Any] = field(default_factory=dict, repr=False)
    live: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Comparison:
    """The objects that were compared. `error` says why nothing could be compared."""

    objects: tuple[Compared, ...] = ()
    error: str | None = None


def compare(
    cluster: Cluster, objects: clients.Objects, kinds: Sequence[str] = COMPARED
) -> Comparison:
    """Compare the objects of these kinds with what this version of Fairlead renders. Objects that
    another version deployed may differ although nobody changed them.

    If nothing is deployed, nothing is compared, and that is not an error.
    """
    try:
        config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
        credentials = deployed_state.credentials(objects)
        if config_map is None or credentials is None:
            return Comparison()
        if objects.get("apps/v1", "Deployment", OPA, NAMESPACE) is None:
            return Comparison(error=f"there is no Deployment {OPA}, which names its sidecar")
        return Comparison(
            tuple(
                compared(objects, manifest, credentials.tls.issuer)
                for manifest in rendered(cluster, config_map, credentials, kinds)
            )
        )
    except FairleadError as error:
        return Comparison(error=str(error))


def rendered(
    cluster: Cluster, config_map: Mapping[str, Any], credentials: Credentials, kinds: Sequence[str]
) -> list[dict[str, Any]]:
    """The objects of these kinds that a deployment of the policies and settings of this ConfigMap
    applies. Raises UsageError if the sidecar cannot do what the settings ask for, and FairleadError
    if the settings cannot be read.
    """
    objects = manifests.render_objects(
        PolicySet.deployed(config_map.get("data") or {}, settings(config_map)),
        credentials,
        webhook_url=cluster.webhook_url(cluster.sidecar),
        controller_url=cluster.controller_url(),
        sidecar=cluster.sidecar,
    )
    return [manifest for manifest in objects if manifest["kind"] in kinds]


def superseded(
    cluster: Cluster,
    objects: clients.Objects,
    credentials: Credentials,
    successors: Iterable[Mapping[str, Any]],
) -> list[tuple[str, str, str]]:
    """The guards of the deployed policies that are not among `successors`, as (apiVersion, kind,
    name): those of intents that are gone. Raises Refused.
    """
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    remaining = {(o["kind"], o["metadata"]["name"]) for o in successors}
    if config_map is None:
        return []
    with suppress(FairleadError):  # no version that can be read here deployed it
        deployed = rendered(cluster, config_map, credentials, GUARDS)
        identities = ((o["kind"], o["metadata"]["name"]) for o in deployed)
        return [(ADMISSION, *identity) for identity in identities if identity not in remaining]
    return []


def apply_exactly(objects: clients.Objects, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Apply an object of COMPARED, and remove what others added to it. Returns the object then.

    Applying alone leaves additions, such as a match condition that exempts requests. The API server
    refuses it if manifest and additions together are invalid. Something else may go on changing the
    object; `compare` shows that. What `fairlead disable` switched off stays off. Raises Refused,
    Unreachable.
    """
    version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    live: dict[str, Any] = {}
    refusal: Refused | None = None
    for _ in range(_ATTEMPTS):
        expected = _as_switched(objects, manifest) if kind in _SWITCHED else manifest
        try:
            live = objects.apply(expected)
            refusal = None
        except Refused as error:
            if error.status == 409:  # somebody changed it after it was read
                refusal = error
                continue
            present = objects.get(version, kind, name, namespace)
            if error.status != 422 or present is None:
                raise
            live, refusal = present, error
        expected = disabled_objects.kept(manifest, live)
        additions = added(expected, live)
        if not additions:
            break
        try:
            if replaces(additions):
                objects.delete(version, kind, name, namespace)
            else:
                live = objects.patch(manifest, restoring(expected, live))
        except Refused as error:
            if error.status != 409:  # somebody changed it meanwhile
                raise
    if refusal:
        raise refusal
    return live


def is_applied(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether `live`, an object of COMPARED, is what applying `manifest` would make of it. It is
    not if somebody else applied it, or if its webhooks trust other CAs, or CAs that only somebody
    else sets.
    """
    if _bundles(manifest) != _bundles(live) or None in _bundles(manifest):
        return False
    if object_comparison.from_manifest(manifest, live, exactly=True):
        return False
    applied = ownership.applied_fields(clients.FIELD_MANAGER, live)
    if applied is None:
        return False
    owned = applied.get("f:metadata", {})
    return all(
        owned.get(f"f:{part}", {}).keys() - {"."}
        == {f"f:{key}" for key in manifest["metadata"].get(part) or {}}
        for part in ("labels", "annotations")
    )


def _bundles(configuration: Mapping[str, Any]) -> list[str | None]:
    """The CAs that each webhook trusts; None if it names none."""
    return [
        webhook["clientConfig"].get("caBundle") for webhook in configuration.get("webhooks") or ()
    ]


def replaces(paths: Iterable[str]) -> bool:
    """Whether only a new object can have other values there: a binding's role is immutable."""
    return any(path.startswith("roleRef") for path in paths)


def added(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> set[str]:
    """The paths in which the content of an object of COMPARED is not that of `manifest`."""
    changes = object_comparison.from_manifest(manifest, live, exactly=True)
    return {change.path for change in changes if not change.path.startswith("metadata.")}


def _as_switched(objects: clients.Objects, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest with what is switched off in the cluster. It then names the version of the
    object, so that it cannot switch off again what somebody enables at this moment.
    """
    metadata = manifest["metadata"]
    live = objects.get(manifest["apiVersion"], manifest["kind"], metadata["name"])
    expected = disabled_objects.kept(manifest, live)
    if live is None or expected is manifest:
        return manifest
    version = live["metadata"]["resourceVersion"]
    return {**expected, "metadata": {**metadata, "resourceVersion": version}}


def restoring(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON Patch that makes the content of `live` that of `manifest`, in the version of `live`.

    A patch needs no right that applying does not need. CA bundles that only others write, such as
    cert-manager, stay.
    """
    content = object_comparison.content(manifest)
    if "webhooks" in content:
        trusted = _trusted(live)
        content["webhooks"] = [
            {
                **webhook,
                "clientConfig": {**trusted.get(webhook["name"], {}), **webhook["clientConfig"]},
            }
            for webhook in content["webhooks"]
        ]
    version = live["metadata"]["resourceVersion"]
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        *({"op": "add", "path": f"/{field}", "value": value} for field, value in content.items()),
        *(
            {"op": "remove", "path": f"/{field}"}
            for field in live
            if field not in content and field not in object_comparison.ENVELOPE
        ),
    ]


def with_bundles(manifest: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest with the CAs that the webhooks of `live` trust: a renewal may be at work."""
    if "webhooks" not in manifest:
        return manifest
    trusted = _trusted(live)
    webhooks = [
        {
            **webhook,
            "clientConfig": {**webhook["clientConfig"], **trusted.get(webhook["name"], {})},
        }
        for webhook in manifest["webhooks"]
    ]
    return {**manifest, "webhooks": webhooks}


def _trusted(live: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The CA bundle of each webhook, by its name."""
    return {
        webhook["name"]: {"caBundle": bundle}
        for webhook in live.get("webhooks") or ()
        if (bundle := webhook["clientConfig"].get("caBundle"))
    }


def settings(config_map: Mapping[str, Any]) -> Settings:
    """The settings of the last deployment or push. Raises FairleadError."""
    try:
        return Settings.model_validate(history.settings_of(config_map))
    except ValueError as error:  # pydantic's error is one
        raise FairleadError(
            f"the annotation {SETTINGS_ANNOTATION} of the ConfigMap {POLICIES} cannot be read by "
            "this version of Fairlead"
        ) from error


def compared(
    objects: clients.Objects, manifest: Mapping[str, Any], issuer: bytes = b""
) -> Compared:
    """Compare an object with what is in the cluster; `issuer` is the CA that webhooks trust, for
    webhooks.
    """
    kind, metadata = manifest["kind"], manifest["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace")
    try:
        live = objects.get(manifest["apiVersion"], kind, name, namespace)
    except Refused as error:
        if error.status != 404:
            return Compared(kind, name, namespace, UNKNOWN, error=str(error))
        live = None  # the API server does not even serve the kind
    if live is None:
        return Compared(kind, name, namespace, MISSING, manifest=manifest)
    expected = disabled_objects.kept(manifest, live)
    fields = tuple(sorted(set(_differences(expected, live, issuer))))
    as_expected = AS_DEPLOYED if expected is manifest else DISABLED
    state = DIFFERS if fields else as_expected
    return Compared(
        kind, name, namespace, state, fields, _failure_policy(live), manifest=manifest, live=live
    )


def _failure_policy(live: Mapping[str, Any]) -> str | None:
    """The failure policy of a guard, or of the first webhook, which decides about pods."""
    first = (live.get("webhooks") or [live.get("spec") or {}])[0]
    policy = first.get("failurePolicy")
    return None if policy is None else str(policy)


def _differences(
    manifest: Mapping[str, Any], live: Mapping[str, Any], issuer: bytes
) -> Iterator[str]:
    """The paths that differ."""
    exactly = manifest["kind"] in COMPARED
    for change in object_comparison.from_manifest(manifest, live, exactly=exactly):
        yield change.path
    for webhook in live.get("webhooks") or ():
        bundle = b64decode((webhook.get("clientConfig") or {}).get("caBundle") or "")
        if trust.joined(bundle, issuer) != bundle:
            yield f"webhooks[{webhook['name']}].clientConfig.caBundle"

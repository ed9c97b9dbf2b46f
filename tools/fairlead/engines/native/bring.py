"""Brings the policies of a record into force, or those of the record before.

API servers enforce a binding as soon as they know it, and its policy must be there by then. So
policies and parameters are new objects for each revision, and the bindings move last. An API
server that learns of the bindings later than others still finds the policies of the revision
before: these are deleted by the deployment after the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, switches
from fairlead.deployment.names import INTENT_LABEL, PARAMETERS_GROUP, PART_OF
from fairlead.engines.live import custom_resources, marker
from fairlead.engines.native import disabling
from fairlead.engines.native.record import ASKED, Record, deployed, read
from fairlead.kube import clients
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.operations import applying
from fairlead.operations.applying import Applier

_ADMISSION = "admissionregistration.k8s.io/v1"
_DEFINITION = "CustomResourceDefinition"
_EXTENSIONS = "apiextensions.k8s.io/v1"
_SINCE = {
    "ValidatingAdmissionPolicy": "1.30",
    "MutatingAdmissionPolicy": "1.36",
}
"""The first version of Kubernetes that serves a kind as v1."""
_OTHERS = 5.0
"""Seconds within which all API servers of a cluster enforce a change."""
_MOVES = 5
"""How often bindings are moved, if others move them at the same time."""
_PREPARED = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_BINDINGS = tuple(f"{kind}Binding" for kind in _PREPARED)

Key = tuple[str, str, str, str | None]
"""An object's apiVersion, kind, name and namespace."""


class _OvertakenError(FairleadError):
    """The cluster records other policies, of another deployment, which puts them in force."""

    def __init__(self) -> None:
        super().__init__(
            "somebody else changed the policies at the same time: run `fairlead status`, and then "
            "deploy again"
        )


def wait_for_others(progress: Progress) -> None:
    """Wait until API servers that were not asked enforce what the one that was asked enforces: they
    look at admission policies every second, and at webhooks at once.
    """
    progress.update("policies", "waiting until all API servers enforce them")
    time.sleep(_OTHERS)


def require_served(cluster: Cluster, record: Record) -> None:
    """Raises UsageError if the API server does not serve a kind of admission policy."""
    served = {(kind.api_version, kind.name) for kind in clients.Objects(cluster.kubeconfig).kinds()}
    for kind in sorted({each["kind"] for each in record.prepared} & _SINCE.keys()):
        if (_ADMISSION, kind) not in served:
            raise UsageError(
                f"the API server does not serve {kind} of {_ADMISSION}, which Kubernetes has since "
                f"{_SINCE[kind]}: use a newer cluster, or `--engine opa`"
            )


def bring(
    cluster: Cluster,
    applier: Applier,
    record: Record,
    before: Record | None,
    *,
    progress: Progress,
) -> None:
    """Put a record in force, and wait until the API server enforces it. If that fails, the record
    `before` is put back.

    Of deployments at the same time, the one that the cluster records last comes into force. The
    others see to that, too, and end with an error. Raises UsageError if the API server does not
    accept a policy (nothing was changed), and FairleadError.
    """
    require_served(cluster, record)
    objects = cluster.objects()
    applying.require_acceptable(objects, record.objects)
    rest = Objects(cluster.kubeconfig)
    try:
        _bring_or_put_back(rest, applier, record, before, progress)
        _drop_bindings(rest, applier, record, progress)
        for key in _superseded(objects, record, before):
            # They may be those of another deployment, which has prepared them and comes next.
            _require_recorded(objects, record)
            applier.delete(*key)
        _require_recorded(objects, record)
    except _OvertakenError:
        _bring_recorded(cluster, rest, applier, progress)
        raise
    progress.finish("deploy", f"applied {len(applier.outcomes)} objects")
    progress.finish("policies", f"revision {record.revision} in force")


def _bring_or_put_back(
    rest: Objects, applier: Applier, record: Record, before: Record | None, progress: Progress
) -> None:
    try:
        _bring(rest, applier, record, progress)
    except _OvertakenError:
        raise
    except (FairleadError, KeyboardInterrupt) as error:
        if before is None:
            raise
        progress.update("policies", f"putting revision {before.revision} back")
        _bring(rest, applier, before, progress)
        _drop_bindings(rest, applier, before, progress)
        reason = str(error) or "interrupted"
        raise FairleadError(
            f"{reason}; revision {before.revision} was put back and is in force"
        ) from error


def _require_recorded(objects: clients.Objects, record: Record) -> None:
    """Raises _OvertakenError if the cluster records other policies."""
    if (deployed(objects) or {}).get("data") != record.manifest["data"]:
        raise _OvertakenError


def _bring_recorded(cluster: Cluster, rest: Objects, applier: Applier, progress: Progress) -> None:
    """Put in force what another deployment has recorded: it may have ended before the last binding
    was moved or deleted here.
    """
    config_map = deployed(applier.objects)
    if config_map is not None and engine_names.of(config_map) not in ASKED:
        other = read(config_map)
        progress.update("policies", f"putting revision {other.revision} in force")
        _bind(rest, applier, other, progress)
        _drop_bindings(rest, applier, other, progress)


def _bring(rest: Objects, applier: Applier, record: Record, progress: Progress) -> None:
    _apply(applier, record.guards, progress)
    _prepare(rest, applier, record, progress)
    _apply(applier, [record.manifest], progress)
    _bind(rest, applier, record, progress)


def _bind(rest: Objects, applier: Applier, record: Record, progress: Progress) -> None:
    """Have the bindings put the record in force that the cluster has."""
    _restore(rest, applier, record, progress)
    moving = _bindings(applier.objects, record)
    for _ in range(_MOVES):
        for binding in moving:
            # Another deployment deletes policies that it does not know: none is bound after that.
            _require_recorded(applier.objects, record)
            _apply(applier, [binding], progress)
        _wait(rest, record.prepared, "enforces them", progress)
        _restore(rest, applier, record, progress)
        bindings = _bindings(applier.objects, record)
        moving = [each for each in bindings if not applying.is_applied(applier.objects, each)]
        if not moving:
            _require_recorded(applier.objects, record)
            return
    raise FairleadError(
        f"somebody else goes on changing {moving[0]['kind']} {moving[0]['metadata']['name']}: end "
        "that, and then deploy again"
    )


def _bindings(objects: clients.Objects, record: Record) -> list[Mapping[str, Any]]:
    """The record's bindings; those of disabled intents are off."""
    disabled = disabling.read(objects).records
    return [
        switches.binding_off(binding)
        if binding["metadata"]["labels"][INTENT_LABEL] in disabled
        else binding
        for binding in record.bindings
    ]


def _prepare(
    rest: Objects,
    applier: Applier,
    record: Record,
    progress: Progress,
    chosen: Callable[[Mapping[str, Any]], bool] = lambda manifest: True,
) -> None:
    """Apply the chosen policies and parameters, and wait until the API server knows them."""
    definitions = [each for each in record.definitions if chosen(each)]
    _apply(applier, definitions, progress)
    custom_resources.wait(rest, definitions)
    if prepared := [each for each in record.prepared if chosen(each)]:
        _apply(applier, prepared, progress)
        _wait(rest, prepared, "knows the policies", progress)


def _restore(rest: Objects, applier: Applier, record: Record, progress: Progress) -> None:
    """Prepare again what is missing: another deployment, which ended meanwhile, took it for
    superseded. It deletes nothing once it sees that the cluster records this one.
    """
    _prepare(
        rest, applier, record, progress, lambda manifest: not _present(applier.objects, manifest)
    )


def _present(objects: clients.Objects, manifest: Mapping[str, Any]) -> bool:
    name = manifest["metadata"]["name"]
    return objects.get(manifest["apiVersion"], manifest["kind"], name) is not None


def _apply(applier: Applier, manifests: Iterable[Mapping[str, Any]], progress: Progress) -> None:
    for manifest in manifests:
        progress.update("deploy", f"applying {manifest['kind']} {manifest['metadata']['name']}")
        applier.apply(manifest)


def _wait(
    rest: Objects, changed: Sequence[Mapping[str, Any]], what: str, progress: Progress
) -> None:
    """Wait until the API server knows of all changes of objects of these kinds."""
    progress.update("policies", f"waiting until the API server {what}")
    parameters = [each for each in changed if each["apiVersion"].startswith(f"{PARAMETERS_GROUP}/")]
    mutating = any(each["kind"].startswith("MutatingAdmissionPolicy") for each in changed)
    with marker.placed(rest, mutating=mutating, parameters=parameters):
        pass


def _drop_bindings(rest: Objects, applier: Applier, record: Record, progress: Progress) -> None:
    """Delete the bindings of instances that are not in the record, and wait until the API server
    enforces them no longer.
    """
    if keys := _others(applier.objects, _BINDINGS, record.bindings):
        _delete(applier, keys)
        dropped = [{"apiVersion": version, "kind": kind} for version, kind, *_ in keys]
        _wait(rest, dropped, "enforces no others", progress)


def _superseded(objects: clients.Objects, record: Record, before: Record | None) -> Iterator[Key]:
    """The policies and parameters of all revisions but this one and the one before. Those stay that
    a binding still names, of a deployment that was held up.
    """
    kept = (*record.prepared, *(before.prepared if before else ()), *_bound(objects))
    yield from _others(objects, _PREPARED, kept)
    definitions = (*record.definitions, *(before.definitions if before else ()))
    yield from _other_definitions(objects, definitions)
    names = {(each["kind"], each["metadata"]["name"]) for each in kept}
    for definition in {each["metadata"]["name"]: each for each in definitions}.values():
        version, kind = custom_resources.identity(definition)
        for item in _listed(objects, version, kind, f"{PART_OF}=fairlead"):
            if (kind, item["metadata"]["name"]) not in names:
                yield version, kind, item["metadata"]["name"], None


def _bound(objects: clients.Objects) -> Iterator[dict[str, Any]]:
    """What the bindings of the cluster name, as {kind, metadata: {name}}."""
    for kind in _BINDINGS:
        for item in _listed(objects, _ADMISSION, kind, f"{PART_OF}=fairlead,{INTENT_LABEL}"):
            policy = kind.removesuffix("Binding")
            yield {"kind": policy, "metadata": {"name": item["spec"]["policyName"]}}


def _other_definitions(
    objects: clients.Objects, kept: Iterable[Mapping[str, Any]]
) -> Iterator[Key]:
    """The kinds of parameters that are not among `kept`."""
    names = {each["metadata"]["name"] for each in kept}
    for item in _listed(objects, _EXTENSIONS, _DEFINITION, f"{PART_OF}=fairlead"):
        name = str(item["metadata"]["name"])
        if name.endswith(f".{PARAMETERS_GROUP}") and name not in names:
            yield _EXTENSIONS, _DEFINITION, name, None


def _others(
    objects: clients.Objects, kinds: Sequence[str], kept: Iterable[Mapping[str, Any]]
) -> list[Key]:
    """The objects of such engines of these kinds that are not among `kept`."""
    names = {(each["kind"], each["metadata"]["name"]) for each in kept}
    return [
        (_ADMISSION, kind, name, None)
        for kind in kinds
        for item in _listed(objects, _ADMISSION, kind, f"{PART_OF}=fairlead,{INTENT_LABEL}")
        for name in [str(item["metadata"]["name"])]
        if name.startswith("fairlead.") and (kind, name) not in names
    ]


def _listed(objects: clients.Objects, version: str, kind: str, labels: str) -> list[dict[str, Any]]:
    """The objects that the selector matches; none if the API server does not serve the kind, or
    does not let the user list it: such a user did not create one either.
    """
    try:
        return objects.list(version, kind, None, labels)
    except Refused as error:
        if error.status in (403, 404):
            return []
        raise


def _delete(applier: Applier, keys: Iterable[Key]) -> None:
    for key in keys:
        applier.delete(*key)


def leave(objects: clients.Objects, applier: Applier) -> None:
    """Delete all objects of such engines, once OPA enforces the policies."""
    _delete(applier, _others(objects, _BINDINGS, ()))
    _delete(applier, _others(objects, _PREPARED, ()))
    _delete(applier, _other_definitions(objects, ()))

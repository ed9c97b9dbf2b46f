"""The engine `cel`: API servers enforce admission policies themselves.

They enforce a binding as soon as they know it, and its policy must be there by then. So policies
and parameters are new objects for each revision, and the bindings move last. An API server that
learns of the bindings later than others still finds the policies of the revision before: these are
deleted by the deployment after the next.

Of deployments at the same time, the one that the cluster records last comes into force. The others
see to that, too, and end with an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from fairlead import engines
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import disabled_intents, disabled_objects, engine_names, manifests
from fairlead.deployment.names import (
    CEL_ENGINE,
    ENGINE_ANNOTATION,
    INTENT_LABEL,
    OBJECTS,
    PARAMETERS_GROUP,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.engines.live import custom_resources, marker
from fairlead.kube import clients
from fairlead.operations import applying, drift, finding_reports, rotate, transient_access
from fairlead.operations.deployed_state import Served
from fairlead.operations.strategies import admission_objects, base, pod_objects
from fairlead.operations.strategies.base import Description, Key, Operation, Overtaken, Revision
from fairlead.policy import bundles, exceptions
from fairlead.policy.policy_set import PolicySet

_SINCE = {
    "ValidatingAdmissionPolicy": "1.30",
    "MutatingAdmissionPolicy": "1.36",
}
"""The first version of Kubernetes that serves a kind as v1."""
_MOVES = 5
"""How often bindings are moved, if others move them at the same time."""

Chosen = Callable[[Mapping[str, Any]], bool]


class Cel:
    """See Strategy."""

    engine = CEL_ENGINE

    def __init__(self, operation: Operation) -> None:
        self._operation = operation
        self._objects = operation.objects

    def render(self, policies: PolicySet) -> Revision:
        """See Strategy. The admission policies have the exceptions of the cluster that have not
        ended; the policies themselves know no others until the next deployment or push.
        """
        return rendered(
            policies.excepting(exceptions.in_force(exceptions.of_cluster(self._objects)))
        )

    def read(self, config_map: Mapping[str, Any]) -> Revision:
        """See Strategy."""
        return read(config_map)

    def superfluous(self, new: Revision, former: Revision | None) -> list[Key]:
        """See Strategy. The policies of the revision before stay."""
        manifests = [*new.objects, *(former.objects if former else ())]
        return [
            *admission_objects.superseded(self._objects, manifests),
            *pod_objects.left(self._operation, new.objects),
        ]

    def apply(self, new: Revision, former: Revision | None) -> None:
        """See Strategy."""
        transient_access.require_ended(self._objects)  # its controller would be deleted
        self.require_served(new)
        self._operation.apply(admission_objects.guards(new.objects))
        self._prepare(new)
        self._operation.apply([new.manifest])

    def require_served(self, new: Revision) -> None:
        """Raises UsageError if the API server does not serve a kind of admission policy."""
        api = clients.Objects(self._operation.cluster.kubeconfig)
        available = {(kind.api_version, kind.name) for kind in api.kinds()}
        for kind in sorted({manifest["kind"] for manifest in new.objects} & _SINCE.keys()):
            if (admission_objects.ADMISSION, kind) not in available:
                raise UsageError(
                    f"the API server does not serve {kind} of {admission_objects.ADMISSION}, which "
                    f"Kubernetes has since {_SINCE[kind]}: use a newer cluster, or `--engine opa`"
                )

    def wait(self, new: Revision) -> list[Served]:
        """See Strategy. No server decides by the policies, and `apply` has waited until the API
        server knows them.
        """
        return []

    def enforce(self, new: Revision, former: Revision | None) -> list[str]:
        """See Strategy."""
        try:
            self._bind(new)
            self._drop_bindings(new)
            self._require_recorded(new)
        except Overtaken:
            self._bind_recorded()
            raise
        self._operation.progress.finish("policies", f"revision {new.revision} in force")
        return []

    def remove(self, new: Revision, keys: Sequence[Key]) -> list[str]:
        """See Strategy. What is superfluous may be what another deployment has prepared, which
        comes next.
        """
        by_pods = any(kind == "Deployment" for _, kind, *_ in keys)
        if by_pods:  # the controller puts nothing back while it cannot hold this
            self._operation.stack.enter_context(rotate.alone(self._operation.cluster))
            base.wait_for_api_servers(self._operation.progress)
        try:
            for key in keys:
                self._require_recorded(new)
                self._operation.applier.delete(*key)
        except Overtaken:
            self._bind_recorded()
            raise
        if by_pods:
            self._operation.cluster.stop()
            finding_reports.remove(self._objects)  # nothing writes them any more
        return []

    def describe(self, config_map: Mapping[str, Any] | None) -> Description:
        """See Strategy. There are no servers and no certificates."""
        row = {"name": POLICIES, "status": "ok", "error": None, "used": True}
        try:
            compared = [
                drift.compared(self._objects, manifest)
                for manifest in read(config_map or {}).objects
                if manifest["metadata"]["name"] != POLICIES
            ]
            comparison = drift.Comparison(tuple(compared))
        except FairleadError as error:
            comparison = drift.Comparison(error=str(error))
            row |= {"status": "error", "error": str(error)}
        rows = {"deployed": True, "sidecar": None, "bundles": None, "policies": [row]}
        rows |= {
            key: [] for key in ("opa", "sidecars", "access", "certificates", "data", "orphans")
        }
        return Description(
            self.engine, rows, comparison, disabled_intents.bindings(self._objects).disabled, {}, ()
        )

    def _require_recorded(self, new: Revision) -> None:
        """Raises Overtaken if the cluster records other policies."""
        if not new.records(self._operation.config_map):
            raise Overtaken

    def _bind_recorded(self) -> None:
        """Put in force what another deployment has recorded: it may have ended before the last
        binding was moved or deleted here.
        """
        config_map = self._operation.config_map
        if config_map is not None and engine_names.of(config_map) not in engine_names.ASKED:
            recorded = read(config_map)
            self._operation.progress.update(
                "policies", f"putting revision {recorded.revision} in force"
            )
            self._bind(recorded)
            self._drop_bindings(recorded)

    def _bind(self, new: Revision) -> None:
        """Have the bindings put the revision in force that the cluster has."""
        self._restore(new)
        moving = self._bindings(new)
        for _ in range(_MOVES):
            for binding in moving:
                # Another deployment deletes policies that it does not know: none is bound then.
                self._require_recorded(new)
                self._operation.apply([binding])
            self._wait(admission_objects.prepared(new.objects), "enforces them")
            self._restore(new)
            moving = [
                item for item in self._bindings(new) if not applying.is_applied(self._objects, item)
            ]
            if not moving:
                self._require_recorded(new)
                return
        raise FairleadError(
            f"somebody else goes on changing {moving[0]['kind']} {moving[0]['metadata']['name']}: "
            "end that, and then deploy again"
        )

    def _bindings(self, new: Revision) -> list[Mapping[str, Any]]:
        """The revision's bindings; those of disabled intents are off."""
        records = disabled_intents.bindings(self._objects).disabled.records
        return [
            disabled_objects.binding_off(manifest)
            if manifest["metadata"]["labels"][INTENT_LABEL] in records
            else manifest
            for manifest in admission_objects.bindings(new.objects)
        ]

    def _prepare(self, new: Revision, select: Chosen = lambda manifest: True) -> None:
        """Apply the chosen policies and parameters, and wait until the API server knows them."""
        kinds = [item for item in admission_objects.definitions(new.objects) if select(item)]
        self._operation.apply(kinds)
        custom_resources.wait(self._objects, kinds)
        if prepared := [item for item in admission_objects.prepared(new.objects) if select(item)]:
            self._operation.apply(prepared)
            self._wait(prepared, "knows the policies")

    def _restore(self, new: Revision) -> None:
        """Prepare again what is missing: another deployment, which ended meanwhile, took it for
        superseded. It deletes nothing once it sees that the cluster records this one.
        """
        self._prepare(new, lambda manifest: not self._present(manifest))

    def _present(self, manifest: Mapping[str, Any]) -> bool:
        name = manifest["metadata"]["name"]
        return self._objects.get(manifest["apiVersion"], manifest["kind"], name) is not None

    def _drop_bindings(self, new: Revision) -> None:
        """Delete the bindings of instances that are not in the revision, and wait until the API
        server enforces them no longer.
        """
        bindings = admission_objects.bindings(new.objects)
        keys = admission_objects.other_keys(self._objects, admission_objects.BINDINGS, bindings)
        if keys:
            for key in keys:
                self._operation.applier.delete(*key)
            dropped = [{"apiVersion": version, "kind": kind} for version, kind, *_ in keys]
            self._wait(dropped, "enforces no others")

    def _wait(self, changed: Sequence[Mapping[str, Any]], expectation: str) -> None:
        """Wait until the API server knows of all changes of objects of these kinds."""
        self._operation.progress.update("policies", f"waiting until the API server {expectation}")
        parameters = [
            item for item in changed if item["apiVersion"].startswith(f"{PARAMETERS_GROUP}/")
        ]
        mutating = any(item["kind"].startswith("MutatingAdmissionPolicy") for item in changed)
        with marker.placed(self._objects, mutating=mutating, parameters=parameters):
            pass


def rendered(policies: PolicySet) -> Revision:
    """The policies as admission policies. Raises UsageError if one of them cannot be one."""
    native = engines.render(CEL_ENGINE, policies)
    data = {**policies.modules, OBJECTS: manifests.to_yaml(native)}
    annotations = {
        REVISION_ANNOTATION: bundles.revision(data),
        SETTINGS_ANNOTATION: json.dumps(policies.settings.deployed_document()),
        ENGINE_ANNOTATION: CEL_ENGINE,
    }
    return _revision(policies, manifests.policies_of(data, annotations), native)


def read(config_map: Mapping[str, Any]) -> Revision:
    """The revision that a ConfigMap of the policies records. Raises FairleadError if somebody
    damaged it.
    """
    data = config_map.get("data") or {}
    try:
        native = list(yaml.load_all(data[OBJECTS], yaml.CSafeLoader))
    except (KeyError, yaml.YAMLError) as error:
        raise FairleadError(
            f"{OBJECTS} of the ConfigMap {POLICIES} cannot be read: run `fairlead deploy`"
        ) from error
    policies = PolicySet.deployed(bundles.modules_of(data), drift.settings(config_map))
    return _revision(policies, manifests.policies_of(data, manifests.recorded(config_map)), native)


def _revision(
    policies: PolicySet, manifest: dict[str, Any], native: Sequence[dict[str, Any]]
) -> Revision:
    bindings = admission_objects.bindings(native)
    before = [entry for entry in native if entry not in bindings]
    guards = manifests.render_guards(policies)
    return Revision(policies, manifest, [*guards, *before, manifest, *map(dict, bindings)])

"""The engine `opa`: API servers ask OPA, which runs in pods, by webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.clusters import webhook_connections
from fairlead.common.errors import FairleadError
from fairlead.deployment import disabled_intents
from fairlead.deployment.names import OPA_ENGINE, POLICIES, WEBHOOKS
from fairlead.deployment.sidecars import Sidecar
from fairlead.keeper.trust import Deployed
from fairlead.operations import (
    deployed_state,
    drift,
    leftovers,
    policy_status,
    preflight,
    problems,
    revision_wait,
    rotate,
    transient_access,
)
from fairlead.operations.deployed_state import Served
from fairlead.operations.strategies import admission_objects, base, pod_objects, pod_status
from fairlead.operations.strategies.base import Description, Key, Operation, Revision, key_of
from fairlead.policy import bundles, staging
from fairlead.policy.policy_set import PolicySet

_ADMISSION = "admissionregistration.k8s.io/"
_CHANGED = (*drift.GUARDS, *drift.WEBHOOKS)
"""The kinds of objects that a push changes beside the policies: those of intents that are new, gone
or about other requests."""


class Opa:
    """See Strategy. `sidecar` runs in the pods, and `restart` restarts them after a push."""

    engine = OPA_ENGINE
    noun = "OPA"

    def __init__(self, operation: Operation, sidecar: Sidecar, *, restart: bool = False) -> None:
        self._operation = operation
        self._sidecar = sidecar
        self._restart = restart
        self._certificate: Deployed | None = None
        self._credentials = pod_objects.NOBODY
        self._last: list[dict[str, Any]] = []
        self._stale: str | None = None

    def render(self, policies: PolicySet) -> Revision:
        """See Strategy. The credentials are those of the cluster, or new ones."""
        operation = self._operation
        self._sidecar.require(policies.settings)
        if policies.settings.certificates.by == "cert-manager":
            rotate.require_cert_manager(operation.cluster)
        staged = staging.staged(policies, self.engine, operation.progress)
        self._credentials = pod_objects.credentials(operation, policies.settings)
        return self._rendered(staged)

    def read(self, config_map: Mapping[str, Any]) -> Revision:
        """See Strategy."""
        self._credentials = pod_objects.deployed(self._operation)
        try:
            policies = PolicySet.deployed(config_map.get("data") or {}, drift.settings(config_map))
            return replace(self._rendered(policies), manifest=config_map)
        except FairleadError:  # no version that can be read here deployed it
            return pod_objects.unreadable(config_map)

    def _rendered(self, policies: PolicySet) -> Revision:
        return pod_objects.revision(
            self._operation.cluster, policies, self._credentials, self._sidecar
        )

    def superfluous(self, new: Revision, former: Revision | None) -> list[Key]:
        """See Strategy."""
        if former is not None:
            return []
        operation = self._operation
        return [
            *pod_objects.superfluous(operation, new, self._credentials),
            *admission_objects.all_keys(operation.objects),
        ]

    def apply(self, new: Revision, former: Revision | None) -> None:
        """See Strategy."""
        if former is None:
            self._deploy(new)
            return
        objects = self._operation.objects
        before = {key_of(manifest): manifest for manifest in former.objects}
        self._last = [
            manifest
            for manifest in new.objects
            if before and manifest["kind"] in _CHANGED and before.get(key_of(manifest)) != manifest
        ]
        self._stale = policy_status.annotation(objects)
        self._operation.progress.update("policies", f"applying revision {new.revision}")
        objects.apply_whole(new.manifest)

    def _deploy(self, new: Revision) -> None:
        """Apply everything but what API servers enforce.

        OPAs and sidecars come first: with the new settings, the sidecar may replicate another
        label, of other namespaces. If the policies in force need what is no longer replicated, the
        sidecar looks it up in the API server. Policies follow, once every sidecar replicates what
        they need. Each OPA decides by the old ones or the new ones; a pod that is judged by one of
        each has the assignment of either, or is refused.

        If no intact policies are in force, they come first: no OPA becomes Ready without them. So
        it is if another engine was deployed, whose servers go on to decide by the policies before.
        """
        operation, settings = self._operation, new.policies.settings
        if settings.access is None:
            transient_access.require_ended(operation.objects)
        if operation.cluster.sidecar != self._sidecar:
            operation.cluster.choose(self._sidecar)
        objects = self._alone(new)
        self._last = [item for item in objects if item["apiVersion"].startswith(_ADMISSION)]
        earlier = [item for item in objects if item not in self._last]
        policies = [item for item in earlier if item["metadata"]["name"] == POLICIES]
        later = self._in_force()
        self._stale = policy_status.annotation(operation.objects)
        operation.apply(item for item in earlier if not later or item not in policies)
        if settings.certificates.by == "cert-manager":
            issued = rotate.issued(operation.objects, progress=operation.progress)
            self._credentials = self._credentials.having(issued)
        operation.progress.update("deploy", "bringing OPA and its sidecar up")
        operation.cluster.serve(new.policies, self._credentials, progress=operation.progress)
        if later:
            self._stale = policy_status.annotation(operation.objects)
            operation.apply(policies)

    def _alone(self, new: Revision) -> Sequence[dict[str, Any]]:
        """The objects to apply, once no controller and no other command changes the
        certificate until the operation ends.

        The Lease comes first: of two first deployments at once, the second then takes the
        credentials of the other.
        """
        operation = self._operation
        hold = operation.stack.enter_context
        self._certificate = hold(rotate.alone(operation.cluster, forbidden=False))
        if not self._certificate.alone:
            operation.apply(
                manifest for manifest in new.objects if manifest["kind"] in ("Namespace", "Lease")
            )
            self._certificate = hold(rotate.alone(operation.cluster))
        present = deployed_state.credentials(operation.objects)
        if present in (None, self._credentials):
            return new.objects
        self._credentials = pod_objects.credentials(operation, new.policies.settings)
        return self._rendered(new.policies).objects

    def _in_force(self) -> bool:
        """Whether every OPA decides by the deployed policies."""
        cluster, objects = self._operation.cluster, self._operation.objects
        config_map = self._operation.config_map
        credentials = deployed_state.credentials(objects)
        if config_map is None or credentials is None:
            return False
        revision = bundles.revision(config_map.get("data") or {})
        try:
            states = [deployed_state.served(opa, credentials.token) for opa in cluster.opas()]
        except FairleadError:  # a pod that cannot be reached, say
            return False
        return bool(states) and all(state.ready and state.revision == revision for state in states)

    def wait(self, new: Revision) -> list[Served]:
        """See Strategy."""
        try:
            return self._waited(new)
        except leftovers.Stuck:
            if not self._restart:
                raise
        self._operation.cluster.restart(progress=self._operation.progress)
        self._restart = False
        return self._waited(new)

    def _waited(self, new: Revision) -> list[Served]:
        return revision_wait.until_in_force(
            self._operation.cluster,
            self._operation.objects,
            self._credentials.token,
            new.manifest["data"],
            progress=self._operation.progress,
            stale=self._stale,
        )

    def enforce(self, new: Revision, former: Revision | None) -> list[str]:
        """See Strategy. A namespace that has a pool by both settings is covered by the old and the
        new webhook, and one of them is always there.
        """
        if former is not None:
            return self._enforce_changes(new, former)
        operation, certificate = self._operation, self._certificate
        asking = [manifest for manifest in self._last if manifest["metadata"]["name"] == WEBHOOKS]
        if operation.cluster.examined and asking:
            preflight.reach(operation.objects, asking[0], progress=operation.progress)
        issued = new.policies.settings.certificates.by == "cert-manager"
        if issued and certificate:  # it injects its CA a moment later, and until then nothing would
            certificate.trust_also(self._credentials.ca)
        operation.apply(self._commented(manifest) for manifest in self._last)
        if issued and certificate:
            certificate.trust_also(self._credentials.ca)
        access = new.policies.settings.access
        if access and access.own_controller:
            transient_access.until_one_works(operation.cluster, progress=operation.progress)
            return transient_access.outside(operation.objects, access)
        return []

    def _enforce_changes(self, new: Revision, former: Revision) -> list[str]:
        objects = self._operation.objects
        present = {key_of(entry) for entry in new.objects}
        removed = [key_of(entry) for entry in former.objects if key_of(entry) not in present]
        try:
            for manifest in self._last:
                drift.apply_exactly(objects, self._commented(manifest))
            for version, kind, name, _ in removed if present else ():
                if kind in _CHANGED:
                    objects.delete(version, kind, name)
        except FairleadError as error:
            return [
                "the new policies are in force, but the webhooks still match the old ones, so some "
                f"requests are not checked: run `fairlead deploy` ({error})"
            ]
        return []

    def _commented(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return webhook_connections.with_deployed_comments(self._operation.objects, manifest)

    def remove(self, new: Revision, keys: Sequence[Key]) -> list[str]:
        """See Strategy. After a push, what others changed in webhooks is told, and in guards it is
        mended: these name the contact and the pool labels.
        """
        operation = self._operation
        if self._certificate:  # a deployment applied all of them
            self._leave(keys)
            return []
        compared = [
            drift.compared(operation.objects, part, self._credentials.tls.issuer)
            for part in new.objects
            if part["kind"] in _CHANGED
        ]
        webhooks = tuple(part for part in compared if part.kind in drift.WEBHOOKS)
        if self._restart:
            operation.cluster.restart(progress=operation.progress)
        return [
            *self._updated_guards(compared),
            *problems.of_objects(drift.Comparison(webhooks)),
            *problems.of_disabled(disabled_intents.webhooks(operation.objects).disabled),
        ]

    def _leave(self, keys: Sequence[Key]) -> None:
        """Delete the objects, and end the servers that another engine had in the place of these."""
        operation = self._operation
        bindings = admission_objects.intent_bindings(keys)
        if operation.cluster.retiring() or bindings:
            base.wait_for_api_servers(operation.progress)
        for key in bindings:
            operation.applier.delete(*key)
        if bindings:  # one that an API server still enforces refuses all without its parameters
            base.wait_for_api_servers(operation.progress)
        for key in keys:
            if key not in bindings:
                operation.applier.delete(*key)
        operation.cluster.retire()

    def _updated_guards(self, compared: Sequence[drift.Compared]) -> list[str]:
        try:
            for entry in compared:
                if entry.kind in drift.GUARDS and entry.state == drift.DIFFERS:
                    drift.apply_exactly(self._operation.objects, entry.manifest)
        except FairleadError as error:
            return [
                f"the guards are not those of the new settings: run `fairlead deploy` ({error})"
            ]
        return []

    def describe(self, config_map: Mapping[str, Any] | None) -> Description:
        """See Strategy."""
        return pod_status.describe(self._operation.cluster, self._operation.objects, config_map)

"""The engine `webhook`: a real API server that asks a real OPA with the policies as deployed."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.clusters.registry import Target
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment import names
from fairlead.engines.base import Outcome, without_data
from fairlead.kube.clients import Objects
from fairlead.opa.api import OpaApi
from fairlead.operations import deploy, deployed_state, up
from fairlead.policy import exceptions, tables
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.images import overridden
from fairlead.settings.models import Settings
from lab.engines.live import custom_resources
from lab.engines.live.namespaces import Knows
from lab.engines.live.scene import SETUP_USER, Scene
from lab.engines.live.webhook_marker import WebhookMarker

_DEADLINE = 180.0
"""Seconds within which the sidecars have replicated an object."""


class WebhookEngine:
    """Sends every request as a dry run to the API server of a new embedded cluster, or of
    `target`.
    """

    name = "webhook"
    asks_cluster = True

    def __init__(self, policies: PolicySet | None = None, target: Target | None = None) -> None:
        self._policies = CasePolicies(policies)
        self._target = target

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return without_data(case)

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine. Cases are grouped by their settings,
        so that each settings are deployed once.
        """
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(case.settings.model_dump_json(), []).append(case)
        with self._cluster(progress) as cluster:
            api = Objects(cluster.kubeconfig)
            if self._target is None:
                custom_resources.serve(api, custom_resources.of(self._policies.whole))
            for group in sorted(groups.values(), key=self._of_pods):
                policies = _with_setup_user(self._policies.of(group[0]))
                cluster.configure(policies)
                with WebhookMarker(api).placed() as in_force:
                    knows = cluster.namespaces_known(policies)
                    looks_up = cluster.cluster.sidecar.look_up
                    scene = Scene(api, in_force, engine_knows=knows, looks_up=looks_up)
                    for case in group:
                        with cluster.excepting(case):
                            outcome = scene.decide(case)
                        yield case, outcome

    @contextmanager
    def _cluster(self, progress: Progress) -> Iterator[_Deployed]:
        """The cluster to ask."""
        if self._target is not None:
            yield _Deployed(registry.find(self._target), progress, own=False)
            return
        settings = Settings()
        name = f"verify-{secrets.token_hex(4)}"
        with up.started(name, settings, up.default_nodes(settings), progress=progress) as cluster:
            yield _Deployed(cluster, progress, own=True)

    def _of_pods(self, group: Sequence[Case]) -> tuple[str, ...]:
        """What OPA's pods depend on. Sorting by it avoids new pods between groups of cases."""
        settings = group[0].settings
        shaping = (
            _namespace_labels(self._policies.of(group[0])),
            settings.default_pool is None,
            settings.namespace_label,
            settings.replicate,
            settings.decision_logs,
        )
        return tuple(map(str, shaping))


def _with_setup_user(policies: PolicySet) -> PolicySet:
    """The policies with the user exempt from every intent who creates what cases start from."""
    settings = policies.settings
    exempting = {}
    for intent in policies.intents:
        in_force = settings.instances(intent.name, default=intent.facts.enabled)
        for name, instance in in_force.items():
            users = [*instance.exempt.users, SETUP_USER]
            exempt = instance.exempt.model_copy(update={"users": users})
            exempting[name] = instance.model_copy(update={"exempt": exempt})
    intents = {**settings.intents, **exempting}
    return policies.under(settings.model_copy(update={"intents": intents}))


def _namespace_labels(policies: PolicySet) -> list[str]:
    """The labels of namespaces that OPA has, sorted."""
    labels = tables.namespace_labels(policies.active, policies.settings)
    return sorted([policies.settings.namespace_label, *labels])


@dataclass(frozen=True)
class _Deployed:
    """The cluster to ask, with the images that the environment names."""

    cluster: Cluster
    progress: Progress
    own: bool

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, who may impersonate anyone."""
        return self.cluster.kubeconfig

    def configure(self, policies: PolicySet) -> None:
        """Deploy the policies, and wait until OPA decides by them.

        OPA compiles all policies again for each one that it loads or unloads, so in a cluster of
        our own the old policies go before the new ones come.
        """
        if self.own:
            self.cluster.objects().delete("v1", "ConfigMap", names.POLICIES, names.NAMESPACE)
        images = overridden(policies.settings.images, os.environ)
        settings = policies.settings.model_copy(update={"images": images})
        deploy.deploy(self.cluster, policies.under(settings), tested=True, progress=self.progress)

    @contextmanager
    def excepting(self, case: Case) -> Iterator[None]:
        """Every OPA has the exceptions of the case during the block."""
        if not (case.exceptions and case.namespace):
            yield
            return
        objects, namespace = self.cluster.objects(), case.namespace
        metadata = {"name": namespace.name, "labels": dict(namespace.labels)}
        objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        manifests = [exception.manifest() for exception in case.exceptions]
        for manifest in manifests:
            objects.apply(manifest)
        self._until_replicated(namespace.name, exceptions.tree(case.exceptions)[namespace.name])
        try:
            yield
        finally:
            for manifest in manifests:
                identity = manifest["apiVersion"], manifest["kind"]
                objects.delete(*identity, manifest["metadata"]["name"], namespace.name)
            self._until_replicated(namespace.name, {})

    def _until_replicated(self, namespace: str, tree: Mapping[str, Any]) -> None:
        credentials = deployed_state.credentials(self.cluster.objects())
        token = credentials.token if credentials else None

        def is_replicated() -> bool:
            for server in self.cluster.opas():
                with contextlib.closing(OpaApi(server.url, ca=server.ca, token=token)) as opa:
                    path = ["kubernetes", exceptions.RESOURCE.name, namespace]
                    replicated = opa.document(path) or {}
                specs = {name: value["spec"] for name, value in replicated.items()}
                if specs != {name: value["spec"] for name, value in tree.items()}:
                    return False
            return True

        waiting.until(
            is_replicated, deadline=_DEADLINE, what=f"OPA has the exceptions of {namespace}"
        )

    def namespaces_known(self, policies: PolicySet) -> Knows:
        """What says whether every OPA has the labels of a namespace that it needs."""
        objects = self.cluster.objects()
        credentials = deployed_state.credentials(objects)
        token = credentials.token if credentials else None
        required = _namespace_labels(policies)

        def relevant(labels: Mapping[str, str]) -> dict[str, str]:
            # An empty label for no pool is not replicated.
            pool = policies.settings.namespace_label
            present = (key for key in required if key in labels and (labels[key] or key != pool))
            return {key: labels[key] for key in present}

        def is_known(name: str, labels: Mapping[str, str]) -> bool:
            for server in self.cluster.opas():
                with contextlib.closing(OpaApi(server.url, ca=server.ca, token=token)) as opa:
                    namespace = opa.document(["kubernetes", "namespaces", name]) or {}
                replicated = namespace.get("metadata", {}).get("labels") or {}
                if relevant(replicated) != relevant(labels):
                    return False
            return True

        return is_known

"""The engine `webhook`: a real API server that asks a real OPA with the policies as deployed."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fairlead.checks.conformance.cases import Case
from fairlead.checks.conformance.engines.base import Outcome
from fairlead.checks.conformance.engines.live_cases import Scene
from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.clusters.registry import Target
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.rest import Rest
from fairlead.operations import deploy, up
from fairlead.policy import workspace
from fairlead.settings.images import overridden
from fairlead.settings.models import Settings

_DEADLINE = 30.0
"""Seconds within which an API server knows a new kind."""


class WebhookEngine:
    """Sends every request as a dry run to the API server of a new embedded cluster, or of
    `target`.
    """

    name = "webhook"
    asks_cluster = True

    def __init__(self, target: Target | None = None) -> None:
        self._target = target

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.checks.conformance.engines.base.Engine. Cases are grouped by their settings,
        so that each settings are deployed once.
        """
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(case.settings.model_dump_json(), []).append(case)
        with self._cluster(progress) as cluster:
            rest = Rest(clients.connect(cluster.kubeconfig))
            if self._target is None:
                _serve_custom_resources(cluster.cluster, rest, cases)
            for group in sorted(groups.values(), key=lambda group: _of_pods(group[0].settings)):
                cluster.configure(group[0].settings)
                scene = Scene(rest, group[0].settings)
                for case in group:
                    yield case, scene.decide(case)

    @contextmanager
    def _cluster(self, progress: Progress) -> Iterator[_Deployed]:
        """The cluster to ask."""
        if self._target is not None:
            yield _Deployed(registry.find(self._target), progress)
            return
        settings = Settings()
        name = f"verify-{secrets.token_hex(4)}"
        with up.started(name, settings, up.default_nodes(settings), progress=progress) as cluster:
            yield _Deployed(cluster, progress)


def _serve_custom_resources(cluster: Cluster, rest: Rest, cases: Sequence[Case]) -> None:
    """Create the CustomResourceDefinitions that the cases' policies bring along, and wait until the
    API server knows their kinds. Raises InputError, FairleadError.
    """
    places = dict.fromkeys(place for case in cases for place in case.settings.policies)
    definitions = [document.value for place in places for document in workspace.crds(Path(place))]
    for definition in definitions:
        cluster.objects().apply(definition)
    for definition in definitions:
        spec = definition["spec"]
        served = {
            "apiVersion": f"{spec['group']}/{spec['versions'][0]['name']}",
            "kind": spec["names"]["kind"],
        }
        waiting.until(
            functools.partial(rest.serves, served),
            deadline=_DEADLINE,
            what=f"the API server knows the kind {served['kind']}",
        )


def _of_pods(settings: Settings) -> tuple[str, ...]:
    """The settings that OPA's pods depend on. Sorting by them avoids new pods between groups of
    cases.
    """
    shaping = (
        settings.default_pool is None,
        settings.namespace_label,
        settings.replicate,
        settings.decision_logs,
    )
    return tuple(map(str, shaping))


@dataclass(frozen=True)
class _Deployed:
    """The cluster to ask, with the images that the environment names."""

    cluster: Cluster
    progress: Progress

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of an administrator, who may impersonate anyone."""
        return self.cluster.kubeconfig

    def configure(self, settings: Settings) -> None:
        """Deploy `settings`, and wait until OPA decides by them."""
        images = overridden(settings.images, os.environ)
        deploy.deploy(
            self.cluster, settings.model_copy(update={"images": images}), progress=self.progress
        )

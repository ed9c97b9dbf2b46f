"""Decides on cases by Kyverno's own admission controller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome, without_exceptions
from fairlead.engines.kyverno import manifests
from fairlead.engines.live import marker as native_marker
from fairlead.kube.clients import Objects
from fairlead.policy.cases import Case
from lab.engines.cel import inexpressible
from lab.engines.cel.expressed import ExpressedInCel
from lab.engines.kyverno import controller, marker
from lab.engines.live import clusters, custom_resources
from lab.engines.live.scene import Scene
from lab.engines.live.worlds import World, create

# How Kyverno and API servers word that an expression or Kyverno failed, which is not a decision.
_FAILED = re.compile(
    r"Policy \S+ error: |Errors: \[|failed to evaluate|failed to convert|failed calling webhook"
)
_PATIENCE = 30
"""Seconds that the API server waits for Kyverno, whatever the case's settings say: a busy machine
is no reason to refuse. It is the longest time that an API server allows."""


class KyvernoEngine(ExpressedInCel):
    """Sends every request as a dry run to the API server of `cluster`, or of a new embedded one,
    which asks Kyverno.
    """

    name = "kyverno"

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return without_exceptions(case) or super().inexpressible(case)

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine."""
        world = World(self._policies, manifests.render)
        groups = {case.name: world.add(case) for case in cases}
        with self._running(progress) as cluster:
            rest = clusters.api(cluster)
            custom_resources.serve(rest, custom_resources.of(self._policies.whole))
            _create(world, rest, progress)
            with native_marker.placed(rest) as known, marker.placed(rest) as in_force:
                scene = Scene(rest, known, engine_knows=in_force.knows)
                for case in cases:
                    decided = scene.decide(case, (groups[case.name],))
                    yield case, inexpressible.outcome(case, decided, _FAILED)

    @contextmanager
    def _running(self, progress: Progress) -> Iterator[BareCluster]:
        if self._cluster is not None:
            yield self._cluster
            return
        with controller.running(progress) as cluster:
            yield cluster


def _create(world: World[list[dict[str, Any]]], rest: Objects, progress: Progress) -> None:
    for number, instance in enumerate(world):
        progress.update("kyverno", "creating the policies", done=number, total=len(world))
        for policy in instance.rendered:
            if instance.concerns(policy):
                named = instance.named(policy, number)
                named["spec"]["webhookConfiguration"] = {"timeoutSeconds": _PATIENCE}
                create(rest, manifests.path(named), named)

"""Decides on cases by the admission policies of a real API server, without OPA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome
from fairlead.engines.cel import definitions, manifests
from fairlead.engines.cel.manifests import Rendered
from fairlead.engines.live import marker
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.policy.cases import Case
from lab.engines.cel import inexpressible, together
from lab.engines.cel.expressed import ExpressedInCel
from lab.engines.live import clusters, custom_resources
from lab.engines.live.scene import Scene
from lab.engines.live.worlds import World, create

# How an API server words that an expression failed, which is not a decision.
_FAILED = re.compile(r"resulted in error|failed expression|failed to|cost limit|compilation error")


class CelEngine(ExpressedInCel):
    """Sends every request as a dry run to the API server of an embedded `cluster`, by default a new
    one.
    """

    name = "cel"

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine."""
        world = World(self._policies, manifests.render)
        groups = {case.name: world.add(case) for case in cases}
        with self._running(progress) as cluster:
            api = clusters.api(cluster)
            custom_resources.serve(api, custom_resources.of(self._policies.whole))
            is_own = self._cluster is None
            with (
                _created(world, api, progress, stay=is_own) as parameters,
                marker.placed(api, mutating=True, parameters=parameters) as in_force,
            ):
                scene = Scene(api, in_force)
                for case in cases:
                    decided = scene.decide(case, (groups[case.name],))
                    yield case, inexpressible.outcome(case, decided, _FAILED)

    def _running(self, progress: Progress) -> AbstractContextManager[BareCluster]:
        return clusters.bare(progress) if self._cluster is None else nullcontext(self._cluster)


@contextmanager
def _created(
    world: World[Rendered], api: Objects, progress: Progress, *, stay: bool
) -> Iterator[list[dict[str, Any]]]:
    """All policies during the block, which gets their parameters, in the order of creation.
    Afterwards only the kinds of parameters stay, unless everything may `stay`. Raises
    FairleadError.
    """
    custom_resources.serve(api, definitions([instance.rendered for instance in world]))
    parameters = together.parameters(world)
    with ExitStack() as stack:

        def create_at(path: str, manifest: dict[str, Any]) -> None:
            create(api, path, manifest)
            stack.callback(api.request, "DELETE", f"{path}/{manifest['metadata']['name']}")

        for parameter in parameters:
            create_at(f"/apis/{parameter['apiVersion']}/{parameter['kind'].lower()}", parameter)
        stack.callback(_wait_for_deletions, api)
        for number, objects in enumerate(together.policies(world)):
            progress.update("cel", "creating the policies", done=number, total=len(world))
            for manifest in objects:
                create_at(path_of(manifest, None), manifest)
        yield parameters
        if stay:
            stack.pop_all()


def _wait_for_deletions(api: Objects) -> None:
    """Return once the API server enforces no binding that was deleted: without its parameters, a
    binding refuses every request.
    """
    with marker.placed(api, mutating=True):
        pass

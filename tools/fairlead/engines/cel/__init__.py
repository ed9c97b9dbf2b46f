"""The engine `cel`: admission policies of a real API server, without OPA."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome
from fairlead.engines.cel import inexpressible, manifests, policies
from fairlead.engines.cel.manifests import Rendered
from fairlead.engines.live import clusters, custom_resources, marker
from fairlead.engines.live.scene import Scene
from fairlead.engines.live.worlds import World, create, numbered
from fairlead.kube.rest import Rest, path_of
from fairlead.policy.cases import Case
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings

# How an API server words that an expression failed, which is no decision.
_FAILED = re.compile(r"resulted in error|failed expression|failed to|cost limit|compilation error")


class CelEngine:
    """Sends every request as a dry run to the API server of a new embedded cluster, in which the
    policies of all settings are in force at once: the policies of each concern only its own
    requests, by a group of the user.
    """

    name = "cel"
    asks_cluster = False

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def render(self, active: Sequence[Instance], settings: Settings) -> list[dict[str, Any]]:
        """See fairlead.engines.base.Renderer."""
        policies.require_definitions(self.name, active)
        rendered = manifests.render(active, settings)
        return [
            *_definitions(rendered),
            *(each.parameters for each in rendered if each.parameters is not None),
            *(policy for each in rendered for policy in each.policies),
            *(binding for each in rendered for binding in each.bindings),
        ]

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return inexpressible.reason(case, self._folder)

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine."""
        world = World(self._folder, manifests.render)
        groups = {case.name: world.add(case) for case in cases}
        with clusters.bare(progress) as cluster:
            rest = clusters.rest(cluster)
            custom_resources.serve(rest, custom_resources.of(cases, self._folder))
            parameters = _create(world, rest, progress)
            with marker.placed(rest, mutating=True, parameters=parameters) as in_force:
                scene = Scene(rest, in_force)
                for case in cases:
                    decided = scene.decide(case, (groups[case.name],))
                    yield case, inexpressible.outcome(case, decided, _FAILED)


def _definitions(rendered: Sequence[Rendered]) -> list[dict[str, Any]]:
    """The kinds of parameters, each once."""
    every = [each.definition for each in rendered if each.definition is not None]
    return list({each["metadata"]["name"]: each for each in every}.values())


def _create(world: World[Rendered], rest: Rest, progress: Progress) -> list[dict[str, Any]]:
    """Create all policies; returns their parameters, in the order of creation. Raises
    FairleadError.
    """
    rendered = [instance.rendered for instance in world]
    custom_resources.serve(rest, _definitions(rendered))
    every = [each.parameters for each in rendered if each.parameters is not None]
    created = list({(each["kind"], each["metadata"]["name"]): each for each in every}.values())
    for parameters in created:
        plural = parameters["kind"].lower()
        create(rest, f"/apis/{parameters['apiVersion']}/{plural}", parameters)
    for number, instance in enumerate(world):
        progress.update("cel", "creating the policies", done=number, total=len(world))
        pairs = zip(instance.rendered.policies, instance.rendered.bindings, strict=True)
        for policy, binding in pairs:
            if not instance.concerns(policy):
                continue
            named, bound = instance.named(policy, number), numbered(binding, number)
            bound["spec"]["policyName"] = named["metadata"]["name"]
            for manifest in (named, bound):
                create(rest, path_of(manifest, None), manifest)
    return created

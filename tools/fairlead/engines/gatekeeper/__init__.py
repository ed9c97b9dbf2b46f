"""The engine `gatekeeper`: ConstraintTemplates, Constraints and mutators of Gatekeeper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome, UnsupportedSettings, without_data
from fairlead.engines.gatekeeper import controller, inexpressible, manifests
from fairlead.engines.gatekeeper.in_force import InForce
from fairlead.engines.live import answers, clusters, custom_resources, marker
from fairlead.engines.live.scene import Scene
from fairlead.policy import bundles
from fairlead.policy.cases import Case
from fairlead.policy.instances import Instance
from fairlead.settings.models import Settings


class GatekeeperEngine:
    """Sends every request as a dry run to the API server of a new embedded cluster, which asks a
    real Gatekeeper.
    """

    name = "gatekeeper"
    asks_cluster = False

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def render(self, active: Sequence[Instance], settings: Settings) -> list[dict[str, Any]]:
        """See fairlead.engines.base.Renderer."""
        bundle = bundles.bundle(settings, self._folder)
        if refused := list(manifests.refused(active, settings, bundle)):
            raise UnsupportedSettings(refused)
        return manifests.in_order(manifests.render(active, settings, bundle))

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return without_data(case) or inexpressible.reason(case, self._folder)

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine. Cases are grouped by their settings, which are in force
        one after another.
        """
        groups: dict[str, tuple[Settings, list[Case]]] = {}
        for case in cases:
            settings = inexpressible.declared(case)
            groups.setdefault(settings.model_dump_json(), (settings, []))[1].append(case)
        with clusters.bare(progress) as cluster:
            api = clusters.api(cluster)
            custom_resources.serve(api, custom_resources.of(cases, self._folder))
            controller.serve_definitions(api, progress)
            controller.start(cluster, api, progress)
            in_force = InForce(api)
            rendered = [self._objects(settings) for settings, _ in groups.values()]
            templates = [each for objects in rendered for each in objects if _is_template(each)]
            in_force.put({each["metadata"]["name"]: each for each in templates}.values())
            with marker.placed(api, webhooks=True) as known:
                scene = Scene(api, known)
                for objects, (_, group) in zip(rendered, groups.values(), strict=True):
                    in_force.put(objects)
                    for case in group:
                        decided = scene.decide(case, [controller.GROUP])
                        yield case, answers.refused_early(case, decided, "Gatekeeper")

    def _objects(self, settings: Settings) -> list[dict[str, Any]]:
        bundle = bundles.bundle(settings, self._folder)
        return self.render(bundle.active(settings), settings)


def _is_template(manifest: dict[str, Any]) -> bool:
    return str(manifest["kind"]) == "ConstraintTemplate"

"""Decides on cases by Gatekeeper's own controller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead import engines
from fairlead.common.progress import Progress
from fairlead.engines.base import Outcome, without_data, without_exceptions
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.engines.gatekeeper import controller, inexpressible
from lab.engines.gatekeeper.in_force import InForce
from lab.engines.live import answers, clusters, custom_resources
from lab.engines.live.scene import Scene
from lab.engines.live.webhook_marker import WebhookMarker


class GatekeeperEngine:
    """Sends every request as a dry run to the API server of a new embedded cluster, which asks a
    real Gatekeeper.
    """

    name = "gatekeeper"
    asks_cluster = False

    def __init__(self, policies: PolicySet | None = None) -> None:
        self._policies = CasePolicies(policies)

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return (
            without_data(case)
            or without_exceptions(case)
            or inexpressible.reason(case, self._policies)
        )

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine. Cases are grouped by their settings, which are in force
        one after another.
        """
        groups: dict[str, tuple[Settings, list[Case]]] = {}
        for case in cases:
            settings = inexpressible.declared(case)
            groups.setdefault(settings.model_dump_json(), (settings, []))[1].append(case)
        with clusters.bare(progress) as cluster:
            rest = clusters.api(cluster)
            custom_resources.serve(rest, custom_resources.of(self._policies.whole))
            controller.serve_definitions(rest, progress)
            controller.start(cluster, rest, progress)
            in_force = InForce(rest)
            rendered = [
                engines.render(self.name, self._policies.under(settings))
                for settings, _ in groups.values()
            ]
            templates = [each for objects in rendered for each in objects if _is_template(each)]
            in_force.put({each["metadata"]["name"]: each for each in templates}.values())
            with WebhookMarker(rest).placed() as known:
                scene = Scene(rest, known)
                for objects, (_, group) in zip(rendered, groups.values(), strict=True):
                    in_force.put(objects)
                    for case in group:
                        decided = scene.decide(case, [controller.GROUP])
                        yield case, answers.refused_early(case, decided, "Gatekeeper")


def _is_template(manifest: dict[str, Any]) -> bool:
    return str(manifest["kind"]) == "ConstraintTemplate"

"""Asks the policies of placement many questions in one process of OPA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy.placement_cases import PlacementCase
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_MODULE = """
package fairlead_placement_cases

answers := [answers |
	some question in data.fairlead_questions
	placement := object.get(question.data, "placement", {})
	kubernetes := object.get(question.data, "kubernetes", {})
	answers := [answer |
		answer := data.k8s.placement with input as {"resource": question.resource}
			with data.placement as placement
			with data.kubernetes as kubernetes
	]
]
"""


def answers(
    cases: Sequence[PlacementCase], policies: PolicySet, progress: Progress
) -> list[dict[str, Any] | None]:
    """The answer to each case, {annotations, errors, explanation}; None where the policies give
    none. Raises FairleadError if OPA fails.
    """
    modules = policies.under(Settings(placement=True)).modules
    questions = [{"data": case.data, "resource": case.resource} for case in cases]
    results = cli.evaluate(
        "data.fairlead_placement_cases.answers",
        modules={**modules, "fairlead_placement_cases.rego": _MODULE},
        data={"fairlead_questions": questions},
        progress=progress,
    )
    return [result[0] if result else None for result in results]

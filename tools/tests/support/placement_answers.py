"""Many questions about placement over clusters for one process of OPA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.opa import cli
from fairlead.policy import bundles
from fairlead.settings.models import Settings

MODULES = bundles.bundle(Settings(placement=True)).modules
_MODULE = """
package asked

answers := [answer | some question in data.questions; answer := _answer(question)]

_answer(question) := answer if {
    asked := question.input
    world := question.placement
    namespaces := question.namespaces
    answer := data.k8s.placement with input as asked
        with data.placement as world
        with data.kubernetes.namespaces as namespaces
} else := null
"""


def answers(questions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The answers, None where there is none. A question has input, placement and namespaces."""
    return list(
        cli.evaluate(
            "data.asked.answers",
            modules={**MODULES, "asked.rego": _MODULE},
            data={"questions": list(questions)},
        )
    )

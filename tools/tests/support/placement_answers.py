"""Many questions about placement over clusters for one process of OPA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.opa import cli
from fairlead.policy import policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

MODULES = PolicySet.load(Settings(placement=True), further=[policy_files.QUERIES]).modules
_MODULE = """
package asked

import data.lib.placement_questions as library

answers := [answer | some question in data.questions; answer := _answer(question)]

_answer(question) := answer if {
    asked := question.input
    world := question.placement
    namespaces := question.namespaces
    answer := data.k8s.placement with input as asked
        with data.placement as world
        with data.kubernetes.namespaces as namespaces
} else := null

shared := [[answer, outcome] |
    some question in data.questions
    answer := _shared(question)
    outcome := _outcome(question)
]

_shared(question) := decision.answer[0] if {
    world := question.placement
    decision := library.decision(question.input.resource, question.namespaces)
        with data.placement as world
} else := null

_outcome(question) := outcome if {
    world := question.placement
    outcome := library.outcome(library.question(question.input.resource, question.namespaces))
        with data.placement as world
} else := null
"""


def answers(questions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The answers, None where there is none. A question has input, placement and namespaces."""
    return _asked("answers", questions)


def shared_answers(questions: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Pairs of the answer and the outcome by the library that asks once about all workloads of
    which placement reads the same.
    """
    return _asked("shared", questions)


def _asked(rule: str, questions: Sequence[Mapping[str, Any]]) -> list[Any]:
    return list(
        cli.evaluate(
            f"data.asked.{rule}",
            modules={**MODULES, "asked.rego": _MODULE},
            data={"questions": list(questions)},
        )
    )

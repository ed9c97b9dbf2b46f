"""The engine `opa`: evaluates the policies alone with `opa eval`, in one process for all cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.admission import evaluate
from fairlead.admission.decisions import NO_ANSWER
from fairlead.admission.evaluate import Answer, Question
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Outcome, Undecided
from fairlead.policy import exceptions
from fairlead.policy.cases import Case
from fairlead.policy.placement_cases import PlacementCase
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification.opa import placements


class OpaEngine:
    """OPA without an API server. A request counts as allowed if OPA allows it, and also allows the
    object with OPA's own patch.
    """

    name = "opa"
    asks_cluster = False

    def __init__(self, policies: PolicySet | None = None) -> None:
        self._policies = policies or PolicySet.load(Settings())

    def inexpressible(self, case: Case) -> str | None:
        """See fairlead.engines.base.Engine."""
        return None

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.engines.base.Engine."""
        questions = [_question(case) for case in cases]
        try:
            answers = evaluate.ask(questions, self._policies, progress)
        except FairleadError:
            evaluate.ask([], self._policies, progress)  # raises if the policies are wrong
            yield from (
                (case, self._alone(question, progress))
                for case, question in zip(cases, questions, strict=True)
            )
            return
        yield from ((case, _outcome(answer)) for case, answer in zip(cases, answers, strict=True))

    def place(
        self, cases: Sequence[PlacementCase], progress: Progress
    ) -> list[dict[str, Any] | None]:
        """See fairlead.engines.base.Placer."""
        return placements.answers(cases, self._policies, progress)

    def _alone(self, question: Question, progress: Progress) -> Outcome:
        """The outcome of one question by itself, after OPA failed on several together."""
        try:
            return _outcome(evaluate.ask([question], self._policies, progress)[0])
        except FairleadError as error:
            return Undecided(str(error))


def _question(case: Case) -> Question:
    namespace = case.namespace
    replicated: dict[str, Any] = {}
    unreplicated: dict[str, Any] = {}
    if namespace and namespace.state != "absent":
        namespaces = replicated if namespace.state == "known" else unreplicated
        namespaces[namespace.name] = {
            "metadata": {"name": namespace.name, "labels": namespace.labels}
        }
    return Question(
        case.review(),
        case.settings,
        replicated,
        unreplicated,
        case.data,
        exceptions.tree(case.exceptions),
    )


def _outcome(answer: Answer) -> Outcome:
    if answer.review is None:
        return Undecided(NO_ANSWER)
    if answer.patch:
        second = (answer.again or {}).get("response", {"allowed": False})
        if not second["allowed"]:
            message = second.get("status", {}).get("message", NO_ANSWER)
            return Undecided(
                f"the policies refuse what they made of the object themselves: {message}"
            )
        if "patch" in second:
            return Undecided(
                "the policies patch what they made of the object once more: not idempotent"
            )
    return Decision(answer.allowed, answer.message, answer.object, answer.warnings)

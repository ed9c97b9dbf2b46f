"""The engine `opa`: evaluates the policies alone with `opa eval`, in one process for all cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fairlead.analysis import evaluate
from fairlead.analysis.evaluate import Answer, Question
from fairlead.checks.conformance.cases import Case
from fairlead.checks.conformance.engines.base import Decision, Outcome, Undecided
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews


class OpaEngine:
    """OPA without an API server. A request counts as allowed if OPA allows it, and also allows the
    object with OPA's own patch.
    """

    name = "opa"
    asks_cluster = False

    def decide(self, cases: Sequence[Case], progress: Progress) -> Iterator[tuple[Case, Outcome]]:
        """See fairlead.checks.conformance.engines.base.Engine."""
        questions = [_question(case) for case in cases]
        try:
            answers = evaluate.ask(questions, progress)
        except FairleadError:
            evaluate.ask([], progress)  # raises if the policies themselves are wrong
            yield from (
                (case, _alone(question, progress))
                for case, question in zip(cases, questions, strict=True)
            )
            return
        yield from ((case, _outcome(answer)) for case, answer in zip(cases, answers, strict=True))


def _question(case: Case) -> Question:
    request, namespace = case.request, case.namespace
    request_review = admission_reviews.build(
        request.manifest,
        operation=request.operation,
        namespace=namespace.name if namespace else None,
        old=request.old_object,
        user=request.user_info,
        sub_resource=request.sub_resource,
        dry_run=request.dry_run,
    )
    known: dict[str, Any] = {}
    unreplicated: dict[str, Any] = {}
    if namespace and namespace.state != "absent":
        namespaces = known if namespace.state == "known" else unreplicated
        namespaces[namespace.name] = {
            "metadata": {"name": namespace.name, "labels": namespace.labels}
        }
    return Question(request_review, case.settings, known, unreplicated)


def _alone(question: Question, progress: Progress) -> Outcome:
    """The outcome of one question by itself, after OPA failed on several together."""
    try:
        return _outcome(evaluate.ask([question], progress)[0])
    except FairleadError as error:
        return Undecided(str(error))


def _outcome(answer: Answer) -> Outcome:
    if answer.review is None:
        return Undecided(evaluate.NO_ANSWER)
    if answer.patch:
        again = (answer.again or {}).get("response", {"allowed": False})
        if not again["allowed"]:
            message = again.get("status", {}).get("message", evaluate.NO_ANSWER)
            return Undecided(
                f"the policies refuse what they made of the object themselves: {message}"
            )
        if "patch" in again:
            return Undecided(
                "the policies patch what they made of the object once more: not idempotent"
            )
    return Decision(answer.allowed, answer.message, answer.object, answer.warnings)

"""Asks the policies for decisions with the real `opa eval`, in one process for any number of
requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews, labels, review_files
from fairlead.opa import cli
from fairlead.policy import bundles
from fairlead.settings.models import Settings

NO_ANSWER = (
    "the policies give no answer (data.system.main is undefined), which an API server "
    "takes for a refusal"
)

# The sidecar is asked for a namespace that OPA does not hold, or holds without a pool; mocked, so
# that no evaluation opens a connection.
_ENVIRONMENT = {"env": {"FAIRLEAD_NAMESPACES_URL": "mocked", "FAIRLEAD_CA_FILE": "mocked"}}
_NOBODY_KNOWS = {"status_code": 404, "body": {}}

# `again` is the decision for the patched object, which an API server may ask for, too
# (reinvocationPolicy IfNeeded). `with` takes the plain variables alone: given `question.review`,
# OPA 1.22 leaves the whole comprehension empty.
_MODULE = """
package fairlead_evaluate

answers := [answer | some question in data.fairlead_questions; answer := _answer(question)]

_answer(question) := {"first": first, "again": _again(question, first), "explanation": explanation} if {
	review := question.review
	namespaces := question.namespaces
	settings := question.settings
	lookup := question.lookup
	first := _main(review, namespaces, settings, lookup)
	explanation := data.node_pool.explanation with input as review
		with data.kubernetes.namespaces as namespaces
		with data.settings as settings
		with opa.runtime as data.fairlead_environment
		with http.send as lookup
}

_main(review, namespaces, settings, lookup) := answer if {
	answer := data.system.main with input as review
		with data.kubernetes.namespaces as namespaces
		with data.settings as settings
		with opa.runtime as data.fairlead_environment
		with http.send as lookup
} else := null

_again(question, first) := _main(patched, question.namespaces, question.settings, question.lookup) if {
	operations := json.unmarshal(base64.decode(first.response.patch))
	object := json.patch(question.review.request.object, operations)
	patched := json.patch(question.review, [{"op": "replace", "path": "/request/object", "value": object}])
} else := null
"""  # noqa: E501


@dataclass(frozen=True)
class Question:
    """One AdmissionReview, and what OPA knows besides.

    `namespaces` is data.kubernetes.namespaces, name -> object; `unreplicated` has those that only
    the sidecar knows.
    """

    review: Any
    settings: Settings
    namespaces: Mapping[str, Any]
    unreplicated: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """A decision: `object` is the object after the patch, None where it is refused or deleted.

    `review` is what OPA said, None where it gave no answer; `again` what it says to the patched
    object, None without a patch; `explanation` holds sentences on what the decision rests on.
    """

    allowed: bool
    message: str
    warnings: tuple[str, ...]
    patch: tuple[dict[str, Any], ...]
    object: Any
    explanation: tuple[str, ...]
    review: dict[str, Any] | None
    again: dict[str, Any] | None


def ask(questions: Sequence[Question], progress: Progress) -> list[Answer]:
    """The decisions, in the order of `questions`.

    Raises FairleadError where OPA fails at any of them, or answers with a patch that cannot be
    applied.
    """
    data = {
        "fairlead_environment": _ENVIRONMENT,
        "fairlead_questions": [
            {
                "review": question.review,
                "settings": bundles.settings_document(question.settings),
                "namespaces": question.namespaces,
                "lookup": _lookup(question),
            }
            for question in questions
        ],
    }
    # As they are deployed, where that can be; one process takes several settings only by `with`.
    alike = all(question.settings == questions[0].settings for question in questions)
    bundle = bundles.bundle(questions[0].settings if questions and alike else Settings())
    modules = {**bundle.modules, "fairlead_evaluate.rego": _MODULE}
    answers = cli.evaluate(
        "data.fairlead_evaluate.answers", modules=modules, data=data, progress=progress
    )
    return [_read(question, answer) for question, answer in zip(questions, answers, strict=True)]


def evaluate(
    path: Path,
    *,
    settings: Settings,
    namespace: str | None = None,
    namespace_labels: Mapping[str, str] | None = None,
    namespaces: Mapping[str, Any] | None = None,
    operation: str | None = None,
    progress: Progress,
) -> list[tuple[Question, Answer]]:
    """The decision for each AdmissionReview or manifest of the file `path`, in its order.

    Args:
        namespace: of the manifests; the one that they name, or `default`, where it is None.
        namespace_labels: of each request's namespace, which is unknown to the policies where this
            is None.
        namespaces: all that are known, as a cluster has them (name -> object), instead of
            `namespace_labels`.
        operation: done with the manifests; None for CREATE. For UPDATE the manifest is the old
            object, too.

    Raises InputError for a file that cannot be read as such, UsageError where it says another
    namespace or operation.
    """
    questions, notes = [], []
    for document in review_files.read(path):
        admission_review = _review_of(document.value, namespace, operation, path)
        request = admission_review.get("request")
        request = request if isinstance(request, dict) else {}
        name = request.get("namespace")
        known = dict(namespaces or {})
        if namespace_labels is not None and isinstance(name, str):
            known = {name: {"metadata": {"name": name, "labels": dict(namespace_labels)}}}
        questions.append(Question(admission_review, settings, known))
        notes.append(_note(name, known, namespaces))
    answers = ask(questions, progress)
    annotated = [
        replace(answer, explanation=answer.explanation + note)
        for answer, note in zip(answers, notes, strict=True)
    ]
    return list(zip(questions, annotated, strict=True))


def parse_labels(text: str) -> dict[str, str]:
    """Labels written as `key=value,key=value`; none at all where `text` is empty. Raises
    UsageError.
    """
    parsed: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UsageError(
                f"--namespace-labels: {pair.strip()!r} is no label: write key=value, separated by "
                "commas"
            )
        if key in parsed:
            raise UsageError(f"--namespace-labels: {key!r} stands there twice")
        try:
            parsed[labels.check_key(key)] = labels.check_value(value)
        except ValueError as error:
            raise UsageError(f"--namespace-labels: {error}") from error
    return parsed


def _review_of(
    value: dict[str, Any], namespace: str | None, operation: str | None, path: Path
) -> dict[str, Any]:
    if not admission_reviews.is_review(value):
        own = (value.get("metadata") or {}).get("namespace")
        if namespace and own and own != namespace:
            raise UsageError(
                f"{path}: is for namespace {own!r}, not {namespace!r}: leave out --namespace"
            )
        old = value if operation == "UPDATE" else None
        return admission_reviews.build(
            value, operation=operation or "CREATE", namespace=namespace, old=old
        )
    request = value.get("request")
    for option, expected in (("namespace", namespace), ("operation", operation)):
        has = request.get(option) if isinstance(request, dict) else None
        if expected is not None and has != expected:
            raise UsageError(
                f"{path}: is a review with {option} {has!r}, not {expected!r}: leave out --{option}"
            )
    return value


def _note(
    name: Any, known: Mapping[str, Any], namespaces: Mapping[str, Any] | None
) -> tuple[str, ...]:
    if not isinstance(name, str) or name in known:
        return ()
    if namespaces is not None:
        return (f'the cluster has no namespace "{name}"',)
    return (
        f'no labels of namespace "{name}" were given: add --namespace-labels KEY=VALUE, or --live',
    )


def _lookup(question: Question) -> dict[str, Any]:
    """What the sidecar answers: the namespace as the API server has it, which a question knows
    of one at most.
    """
    request = question.review.get("request") if isinstance(question.review, dict) else None
    name = request.get("namespace") if isinstance(request, dict) else None
    there = {**question.namespaces, **(question.unreplicated or {})}
    return (
        {"status_code": 200, "body": there[name]}
        if isinstance(name, str) and name in there
        else _NOBODY_KNOWS
    )


def _read(question: Question, answer: Mapping[str, Any]) -> Answer:
    first, explanation = answer["first"], tuple(sorted(answer["explanation"]))
    if first is None:
        return Answer(False, NO_ANSWER, (), (), None, explanation, None, None)
    response = first["response"]
    patch = tuple(admission_reviews.patch_of(first))
    after = None
    if response["allowed"]:
        request = question.review.get("request")
        after = request.get("object") if isinstance(request, dict) else None
        after = admission_reviews.apply(patch, after) if patch else after
    return Answer(
        allowed=response["allowed"],
        message=response.get("status", {}).get("message", ""),
        warnings=tuple(response.get("warnings", ())),
        patch=patch,
        object=after,
        explanation=explanation,
        review=first,
        again=answer["again"],
    )

"""Decides on single requests with `opa eval` and explains the decisions, for `fairlead eval` and
the conformance cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.analysis import asked
from fairlead.analysis.asked import Asked, Webhooks
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews, labels, review_files
from fairlead.opa import cli
from fairlead.policy import bundles
from fairlead.settings.models import Settings

NO_ANSWER = (
    "the policies give no answer (data.system.main is undefined), which an API server "
    "treats as a refusal"
)

# OPA asks the sidecar about a namespace that it does not hold or that has no pool. The sidecar is
# mocked, so that no evaluation opens a connection.
_ENVIRONMENT = {"env": {"FAIRLEAD_NAMESPACES_URL": "mocked", "FAIRLEAD_CA_FILE": "mocked"}}
_NOBODY_KNOWS = {"status_code": 404, "body": {}}

# `again` is the decision on the patched object, which an API server may ask for, too
# (reinvocationPolicy IfNeeded). The values after `with` are plain variables on purpose: with
# `question.review` there, OPA 1.22 leaves the whole comprehension empty.
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
    """One AdmissionReview, and the settings and data of OPA for it.

    `namespaces` is data.kubernetes.namespaces, name -> object. `unreplicated` has the namespaces
    that only a lookup finds.
    """

    review: Any
    settings: Settings
    namespaces: Mapping[str, Any]
    unreplicated: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """A decision. `object` is the object after the patch, None if it is refused or deleted.

    `review` is OPA's answer, None if there was none. `again` is its answer to the patched object,
    None without a patch. `explanation` are sentences with the reasons.

    If OPA is not `asked`, the API server decides alone: it admits the object as it is, or refuses
    it. `reason` says why OPA is not asked; see Asked.
    """

    allowed: bool
    message: str
    warnings: tuple[str, ...]
    patch: tuple[dict[str, Any], ...]
    object: Any
    explanation: tuple[str, ...]
    review: dict[str, Any] | None
    again: dict[str, Any] | None
    asked: bool = True
    reason: str = ""


def ask(questions: Sequence[Question], progress: Progress) -> list[Answer]:
    """The decisions, in the order of `questions`.

    Raises FairleadError if OPA fails on any of them, or if its patch cannot be applied.
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
    # Use the policies as they are deployed, if all questions have the same settings. Different
    # settings in one process are possible only by `with`.
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
    webhooks: Webhooks | None = None,
    operation: str | None = None,
    progress: Progress,
) -> list[tuple[Question, Answer]]:
    """The decision for each AdmissionReview or manifest of the file `path`, in its order.

    OPA decides only on requests that an API server asks it about.

    Args:
        namespace: the namespace of the manifests; None for the one that they name, or `default`.
        namespace_labels: the labels of each request's namespace; None if the policies do not know
            the namespace.
        namespaces: all namespaces of a cluster (name -> object), instead of `namespace_labels`.
        webhooks: those of that cluster; None for those that a deployment with `settings` brings.
        operation: the operation on the manifests; None for CREATE. For UPDATE, the manifest is also
            the old object.

    Raises InputError if the file is unreadable, UsageError if it contradicts `namespace` or
    `operation`.
    """
    if webhooks is None:
        webhooks = asked.rendered(settings)
    foreign = (asked.RENDERED,) if namespaces is not None and not webhooks.deployed else ()
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
        notes.append((*_note(name, known), *foreign))
    admissions = asked.ask(
        webhooks,
        [question.review for question in questions],
        {name: known for question in questions for name, known in question.namespaces.items()},
        complete=namespaces is not None,
        progress=progress,
    )
    decided = [question for question, each in zip(questions, admissions, strict=True) if each.asked]
    answers = iter(ask(decided, progress) if decided else ())
    return [
        (
            question,
            replace(answer, explanation=answer.explanation + note, reason=each.reason)
            if each.asked and (answer := next(answers))
            else replace(without_opa(question, each), explanation=foreign),
        )
        for question, each, note in zip(questions, admissions, notes, strict=True)
    ]


def without_opa(question: Question, admission: Asked) -> Answer:
    """The API server's own decision on a request that it does not ask OPA about."""
    sent = None if admission.refused else question.review["request"].get("object")
    return Answer(
        allowed=not admission.refused,
        message=admission.reason if admission.refused else "",
        warnings=(),
        patch=(),
        object=sent,
        explanation=(),
        review=None,
        again=None,
        asked=False,
        reason=admission.reason,
    )


def parse_labels(text: str) -> dict[str, str]:
    """Parse labels of the form `key=value,key=value`; an empty text has none. Raises UsageError if
    the text is invalid.
    """
    parsed: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise UsageError(
                f"--namespace-labels: {pair.strip()!r} is not a label: write key=value, separated "
                "by commas"
            )
        if key in parsed:
            raise UsageError(f"--namespace-labels: {key!r} is given twice: leave one of them out")
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


def _note(name: Any, known: Mapping[str, Any]) -> tuple[str, ...]:
    if not isinstance(name, str) or name in known:
        return ()
    return (
        f'no labels of namespace "{name}" were given: add --namespace-labels KEY=VALUE, or --live',
    )


def _lookup(question: Question) -> dict[str, Any]:
    """The sidecar's answer to a lookup of the question's namespace."""
    request = question.review.get("request") if isinstance(question.review, dict) else None
    name = request.get("namespace") if isinstance(request, dict) else None
    namespaces = {**question.namespaces, **(question.unreplicated or {})}
    return (
        {"status_code": 200, "body": namespaces[name]}
        if isinstance(name, str) and name in namespaces
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

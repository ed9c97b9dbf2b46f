"""Decides on single requests with `opa eval` and explains the decisions, for `fairlead eval` and
the conformance cases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairlead.admission import asked, decisions, request_files
from fairlead.admission.asked import Webhooks
from fairlead.admission.decisions import Decision
from fairlead.admission.request_files import Inputs
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews, labels
from fairlead.opa import cli
from fairlead.policy import bundles, tables
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

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

_answer(question) := object.union({"first": first, "again": _again(question, first)}, details) if {
	review := question.review
	namespaces := question.namespaces
	settings := question.settings
	requests := question.requests
	refusals := question.refusals
	lookup := question.lookup
	exceptions := question.exceptions
	first := _main(review, namespaces, exceptions, settings, requests, refusals, lookup)
	details := _details with input as review
		with data.kubernetes.namespaces as namespaces
		with data.kubernetes.policyexceptions as exceptions
		with data.settings as settings
		with data.intents.requests as requests
		with data.intents.refusals as refusals
		with opa.runtime as data.fairlead_environment
		with http.send as lookup
}

_details := {"explanation": _explanation | _exceptions, "intents": [intents | intents := data.system._decisions]}

_explanation := {sentence | some intent in _explained; some sentence in data.intents.explanations[intent]} if not data.review.reduced

_exceptions := {sentence |
	some intent, names in data.exceptions.by_intent
	some name in names
	sentence := sprintf("%s leaves the object alone: the exception %s/%s says so", [intent, input.request.namespace, name])
}

# No intent is asked about such an object.
_explanation := {"the object is too large to be judged"} if data.review.reduced

# If an intent refuses, those say more that refuse or warn, too. If no intent has a say in such requests, each says why
# not.
_explained := data.scope.concerned if {
	count(data.scope.concerned) > 0
	not _refused
}

_explained := {intent |
	some intent in data.scope.concerned
	decision := data.system._decisions[intent]
	count(decision.deny | decision.warn) > 0
} if _refused

_refused if {
	some decision in data.system._decisions
	count(decision.deny) > 0
}

_explained := data.intents.names if count(data.scope.concerned) == 0

_main(review, namespaces, exceptions, settings, requests, refusals, lookup) := answer if {
	answer := data.system.main with input as review
		with data.kubernetes.namespaces as namespaces
		with data.kubernetes.policyexceptions as exceptions
		with data.settings as settings
		with data.intents.requests as requests
		with data.intents.refusals as refusals
		with opa.runtime as data.fairlead_environment
		with http.send as lookup
} else := null

_again(question, first) := _main(patched, question.namespaces, question.exceptions, question.settings, question.requests, question.refusals, question.lookup) if {
	operations := json.unmarshal(base64.decode(first.response.patch))
	object := json.patch(question.review.request.object, operations)
	patched := json.patch(question.review, [{"op": "replace", "path": "/request/object", "value": object}])
} else := null
"""  # noqa: E501


@dataclass(frozen=True)
class Question:
    """One AdmissionReview, and the settings and data of OPA for it.

    `namespaces` is data.kubernetes.namespaces, name -> object. `unreplicated` has the namespaces
    that only a lookup finds. `data` is what OPA has besides, at the top of its data. `exceptions`
    is data.kubernetes.policyexceptions (fairlead.policy.exceptions.tree).
    """

    review: Any
    settings: Settings
    namespaces: Mapping[str, Any]
    unreplicated: Mapping[str, Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    exceptions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer(Decision):
    """A decision. `object` is the object after the patch, None if it is refused or deleted.

    `review` is OPA's answer, None if there was none. `again` is its answer to the patched object,
    None without a patch. `explanation` are sentences with the reasons.

    If OPA is not `asked`, the API server decides alone: it admits the object as it is, or refuses
    it.
    """

    object: Any = None
    explanation: tuple[str, ...] = ()
    review: dict[str, Any] | None = None
    again: dict[str, Any] | None = None


def ask(questions: Sequence[Question], policies: PolicySet, progress: Progress) -> list[Answer]:
    """The decisions by the policies, in the order of `questions`, under the settings of each.

    Raises FairleadError if OPA fails on any of them, or if its patch cannot be applied.
    """
    if not questions:
        return _decide(_prepare(policies), [], progress)  # raises if policies are wrong
    by_settings: dict[str, _Prepared] = {}
    groups: dict[tuple[str, ...], list[int]] = {}
    prepared: list[_Prepared] = []
    for number, question in enumerate(questions):
        key = question.settings.model_dump_json()
        if key not in by_settings:
            by_settings[key] = _prepare(policies.under(question.settings))
        prepared.append(by_settings[key])
        data_text = json.dumps(question.data, sort_keys=True)
        groups.setdefault((*prepared[number].instances, data_text), []).append(number)
    answers: dict[int, Answer] = {}
    for numbers in groups.values():
        pairs = [(questions[number], prepared[number]) for number in numbers]
        answers |= zip(numbers, _decide(prepared[numbers[0]], pairs, progress), strict=True)
    return [answers[number] for number in range(len(questions))]


@dataclass(frozen=True)
class _Prepared:
    """The policies with settings, what policies read of these, and the names of the instances of
    intents with their packages.
    """

    modules: Mapping[str, str]
    documents: dict[str, Any]
    instances: tuple[str, ...]


def _prepare(policies: PolicySet) -> _Prepared:
    active = policies.active
    documents = {
        "settings": bundles.settings_document(policies.settings, active),
        "requests": tables.requests(active),
        "refusals": tables.refusals(active),
    }
    return _Prepared(
        policies.modules,
        documents,
        tuple(f"{instance.name} {instance.intent.package}" for instance in active),
    )


def _decide(
    policies: _Prepared, pairs: Sequence[tuple[Question, _Prepared]], progress: Progress
) -> list[Answer]:
    """The decisions on questions with the same data, whose settings have the instances of intents
    that `policies` has. Each question brings its own settings, by `with`.
    """
    data = {
        **(pairs[0][0].data if pairs else {}),
        "fairlead_environment": _ENVIRONMENT,
        "fairlead_questions": [
            {
                "review": question.review,
                **prepared.documents,
                "namespaces": question.namespaces,
                "exceptions": question.exceptions,
                "lookup": _lookup(question),
            }
            for question, prepared in pairs
        ],
    }
    modules = {**policies.modules, "fairlead_evaluate.rego": _MODULE}
    answers = cli.evaluate(
        "data.fairlead_evaluate.answers", modules=modules, data=data, progress=progress
    )
    return [_read(question, answer) for (question, _), answer in zip(pairs, answers, strict=True)]


def evaluate(
    inputs: Inputs, *, policies: PolicySet, webhooks: Webhooks, progress: Progress
) -> list[tuple[Question, Answer]]:
    """The decision for each AdmissionReview or manifest that was read, in their order.

    OPA decides only on requests that an API server with these webhooks asks it about. Raises
    InputError for what is unreadable.
    """
    foreign = (webhooks.note,) if inputs.live and webhooks.note else ()
    if inputs.unreadable:
        raise inputs.unreadable[0]
    questions = [
        Question(request.review, policies.settings, inputs.namespaces, exceptions=inputs.exceptions)
        for request in inputs.requests
    ]
    admissions = asked.ask(
        webhooks,
        [question.review for question in questions],
        inputs.namespaces,
        complete=inputs.live,
        progress=progress,
    )
    admissions = [
        asked.Asked(False, request.refusal, refused=True) if request.refusal else admission
        for request, admission in zip(inputs.requests, admissions, strict=True)
    ]
    decided = [
        replace(question, review=admission.question(question.review))
        for question, admission in zip(questions, admissions, strict=True)
        if admission.asked
    ]
    answers = iter(ask(decided, policies, progress) if decided else ())
    evaluated = []
    for request, question, admission in zip(inputs.requests, questions, admissions, strict=True):
        answer, notes = Answer(True, ""), foreign
        if admission.asked:
            answer = next(answers)
            note = request_files.unknown(inputs, request)
            notes = (*answer.explanation, *([note] if note else []), *foreign)
            answer = replace(answer, message=request_files.in_words_for_files(answer.message))
        answer = answer.admitted(admission)
        answer = replace(
            answer,
            object=_after(answer, question.review),
            explanation=notes,
            reason=answer.reason or admission.reason,
        )
        evaluated.append((question, answer))
    return evaluated


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


def _lookup(question: Question) -> dict[str, Any]:
    """The sidecar's answer to a lookup of the question's namespace."""
    name = admission_reviews.request_of(question.review).get("namespace")
    namespaces = {**question.namespaces, **(question.unreplicated or {})}
    return (
        {"status_code": 200, "body": namespaces[name]}
        if isinstance(name, str) and name in namespaces
        else _NOBODY_KNOWS
    )


def _read(question: Question, answer: Mapping[str, Any]) -> Answer:
    decided = Answer(
        **decisions.fields(answer["first"]),
        intents=next(iter(answer["intents"]), {}),
        explanation=tuple(sorted(answer["explanation"])),
        review=answer["first"],
        again=answer["again"],
    )
    return replace(decided, object=_after(decided, question.review))


def _after(decision: Decision, review: Any) -> Any:
    """The object after the decision; None if it is refused or deleted."""
    if not decision.allowed:
        return None
    manifest = admission_reviews.request_of(review).get("object")
    return admission_reviews.apply(decision.patch, manifest) if decision.patch else manifest

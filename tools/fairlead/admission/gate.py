"""Decides on all AdmissionReviews and manifests of files and folders, and says which of them fail a
check, for `fairlead eval` as a gate in CI and before commits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.admission import asked, batch, request_files
from fairlead.admission.asked import Webhooks
from fairlead.admission.batch import described
from fairlead.admission.decisions import Decision
from fairlead.admission.request_files import Inputs, Request
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews
from fairlead.kube.admission_reviews import Subject
from fairlead.policy import exceptions
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

REFUSED = "refused"
WARNED = "warned"
CHANGED = "changed"
FINDINGS = (REFUSED, WARNED, CHANGED)
"""What the policies can do with an object, the gravest first."""

# What holds for every pod of a template, whose own object may be admitted with a warning.
_EVERY_POD = re.compile(r"\bevery pod of .* will be refused\b")

ADMITTED = "admitted"
OUTCOMES = (*FINDINGS, ADMITTED)


@dataclass(frozen=True)
class Finding:
    """What one intent does with an object: a refusal, a warning, or its patch as text.

    `intent` is None for a request that cannot be read, on which no intent decides.
    """

    finding: str
    intent: str | None
    message: str


@dataclass(frozen=True)
class Verdict:
    """The decision on one object. `line` counts from 1; None if it is not known.

    `findings` are sorted, the gravest first. `failed` says whether one of them fails the gate.
    """

    path: Path
    line: int | None
    subject: Subject
    findings: tuple[Finding, ...]
    failed: bool
    patch: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]

    @property
    def outcome(self) -> str:
        """One of OUTCOMES: the gravest finding."""
        return self.findings[0].finding if self.findings else ADMITTED


@dataclass(frozen=True)
class Report:
    """The verdicts in the order of the input.

    `fail_on` are the findings that fail the gate, `files` counts the files with objects. For
    `unreadable` and `skipped` see request_files.Inputs. `unknown` are the namespaces that nothing
    describes, although they have pods or templates; `warnings` are sentences about them. `intents`
    are those that decided.
    """

    verdicts: tuple[Verdict, ...]
    fail_on: tuple[str, ...]
    files: int
    unreadable: tuple[InputError, ...]
    skipped: Mapping[str, int]
    intents: tuple[str, ...]
    unknown: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def failed(self) -> int:
        """The number of objects that fail the gate."""
        return sum(verdict.failed for verdict in self.verdicts)

    @property
    def counts(self) -> dict[str, int]:
        """The number of objects with each of OUTCOMES."""
        counts = Counter(verdict.outcome for verdict in self.verdicts)
        return {outcome: counts[outcome] for outcome in OUTCOMES}


def check(
    inputs: Inputs,
    *,
    policies: PolicySet,
    webhooks: Webhooks,
    fail_on: Collection[str] = (),
    progress: Progress,
) -> Report:
    """Decide on everything that was read, in a few processes of OPA.

    An object whose findings have one of `fail_on` (of FINDINGS) fails the gate. A template all of
    whose pods will be refused counts as refused. What API servers with these webhooks do not ask
    OPA about is admitted, or refused by themselves. Raises FairleadError if OPA fails.
    """
    # A build takes minutes, the decisions less than seconds.
    toolchain.ensure(["opa", toolchain.MATCHER], progress)
    admissions = asked.ask(
        webhooks,
        [request.review for request in inputs.requests],
        inputs.namespaces,
        complete=inputs.live,
        progress=Progress(),
    )
    pairs = list(zip(inputs.requests, admissions, strict=True))
    concerned = [request for request, admission in pairs if admission.asked]
    decided = iter(
        batch.decide(
            [admission.question(request.review) for request, admission in pairs if admission.asked],
            modules=policies.modules,
            kubernetes={
                "namespaces": inputs.namespaces,
                exceptions.RESOURCE.name: inputs.exceptions,
            },
            progress=Progress(),
        )
    )
    decisions = [
        (next(decided) if admission.asked else Decision(True, "")).admitted(admission)
        for admission in admissions
    ]
    verdicts = [
        _verdict(inputs, request, decision, policies.settings, fail_on)
        for request, decision in zip(inputs.requests, decisions, strict=True)
    ]
    unknown = _unknown(inputs, concerned)
    return Report(
        verdicts=tuple(verdicts),
        fail_on=tuple(finding for finding in FINDINGS if finding in fail_on),
        files=inputs.files,
        unreadable=inputs.unreadable,
        skipped=inputs.skipped,
        intents=tuple(sorted({instance.intent.name for instance in policies.active})),
        unknown=unknown,
        warnings=tuple(_advice(inputs, name) for name in unknown),
    )


def _verdict(
    inputs: Inputs,
    request: Request,
    decision: Decision,
    settings: Settings,
    fail_on: Collection[str],
) -> Verdict:
    findings = tuple(_findings(decision, settings))
    notes = request.remarks
    if request.refusal:
        findings = (Finding(REFUSED, None, request.refusal),)
    elif not decision.asked:
        notes = (*notes, f"not asked: {decision.reason}") if decision.allowed else notes
    elif request.namespace is not None and request.namespace not in inputs.namespaces:
        advice = _advice(inputs, request.namespace)
        notes = (*notes, advice)
        findings = tuple(
            replace(finding, message=_advised(finding.message, advice))
            if finding.finding == REFUSED
            else finding
            for finding in findings
        )
    return Verdict(
        path=request.path,
        line=request.line,
        subject=admission_reviews.subject(request.review),
        findings=findings,
        failed=any(finding.finding in fail_on for finding in findings),
        patch=decision.patch,
        notes=notes,
    )


def _advised(message: str, advice: str) -> str:
    """A message about an object whose namespace is not known, with the advice once."""
    advised = request_files.in_words_for_files(message, advice)
    return advised if advised != message else f"{message}; {advice}"


def _findings(decision: Decision, settings: Settings) -> Iterator[Finding]:
    """What each intent does with the object, the gravest first."""
    intents = sorted(decision.intents.items())
    lenient = {intent for intent, _ in intents if settings.mode(intent) == "warn"}
    refusals = [
        Finding(WARNED if intent in lenient else REFUSED, intent, message)
        for intent, decided in intents
        for message in sorted(decided["deny"])
    ]
    warnings = [
        Finding(REFUSED if _EVERY_POD.search(message) else WARNED, intent, message)
        for intent, decided in intents
        for message in sorted(decided["warn"])
    ]
    refused = [finding for finding in [*refusals, *warnings] if finding.finding == REFUSED]
    yield from refused
    if not decision.allowed and not refused:  # no intent can decide
        yield Finding(REFUSED, None, decision.message)
    yield from (finding for finding in [*refusals, *warnings] if finding.finding == WARNED)
    for intent, decided in intents if decision.allowed else ():
        if decided["patch"]:
            yield Finding(CHANGED, intent, described(decided["patch"]))


def _unknown(inputs: Inputs, requests: Sequence[Request]) -> tuple[str, ...]:
    """The namespaces of what OPA is asked about whose labels are not known, sorted."""
    names = {request.namespace for request in requests}
    return tuple(sorted(name for name in names if name and name not in inputs.namespaces))


def _advice(inputs: Inputs, namespace: str) -> str:
    if inputs.live:
        return f'the cluster has no namespace "{namespace}", and no manifest describes it'
    return (
        f'the labels of namespace "{namespace}" are not known: name the file with its manifest, '
        "too, or add --namespace-labels or --live"
    )

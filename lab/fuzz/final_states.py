"""Compares the admission policies that check the final state of pods with OPA, whose validating
webhook they take the place of (docs/engines.md, `opa, asked once`).

API servers' own code evaluates the policies, without an API server. OPA decides for the intents
that the policies are of, as its webhooks for them do.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

from fairlead.analysis import evaluate
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Undecided
from fairlead.engines.cel import final_state, offline
from fairlead.engines.cel.final_state import Check
from fairlead.policy import bundles
from fairlead.policy.cases import Case, Expect
from fairlead.settings.models import Settings
from lab.fuzz import (
    agreement,
    batches,
    completion,
    container_requests,
    placement_requests,
)
from lab.fuzz.batches import BATCH, Batch
from lab.fuzz.search import Search, drawn

UNDONE = "another webhook has undone"
_PARTS = ("nodeSelector", "tolerations", "nodeName", "containers", "initContainers", "volumes")
"""The parts of a pod's spec that the policies read, and that other webhooks change here."""
_AT_ONCE = 40
"""Batches about which one process of OPA is asked."""
_NAMES = itertools.count()


@dataclass(frozen=True)
class Judged:
    """What OPA and the policies say of the object of a case, as a final state."""

    case: Case
    answer: evaluate.Answer
    outcome: Decision | Undecided

    @property
    def expected(self) -> str:
        """How the policies have to refuse the object; empty if they have to accept it. A validating
        webhook refuses what lacks OPA's patch, too.
        """
        return UNDONE if self.answer.patch else self.answer.message.strip()

    @property
    def words(self) -> str:
        """The expected judgement in a few words."""
        if not self.expected:
            return "final state accepted"
        return "final state refused as undone" if self.answer.patch else "final state refused"

    @property
    def wrong(self) -> str:
        """How the policies and OPA differ; empty if they do not. Of what OPA refuses, the words do
        not count.
        """
        outcome, expected = self.outcome, self.expected
        if (
            isinstance(outcome, Decision)
            and outcome.allowed == (not expected)
            and outcome.message.startswith(UNDONE) == (expected == UNDONE)
        ):
            return ""
        return f"the policies: {outcome}, and OPA: {expected or 'allowed'}"


class Judge:
    """Has OPA and the policies judge pods, by the policies of `folder`, or the checkout's."""

    def __init__(self, progress: Progress, folder: Path | None = None) -> None:
        self._progress = progress
        self._folder = folder
        self._checks: dict[str, list[Check]] = {}

    def checks(self, settings: Settings) -> list[Check]:
        """The policies that check the final state with these settings."""
        key = settings.model_dump_json()
        if key not in self._checks:
            active = bundles.bundle(settings, self._folder).active(settings)
            self._checks[key] = final_state.render(active, settings)[0]
        return self._checks[key]

    def left_by_opa(self, cases: Sequence[Case]) -> dict[str, Case]:
        """The cases with their objects as OPA leaves them, by their names, without those that it
        does not change.
        """
        return {
            case.name: with_object(case, answer.object)
            for case, answer in zip(cases, self._answers(cases), strict=True)
            if answer.patch
        }

    def judged(self, cases: Sequence[Case]) -> list[Judged]:
        """What OPA and the policies say of the object of each case."""
        alike: dict[str, list[int]] = {}
        for number, case in enumerate(cases):
            key = case.settings.model_dump_json() + json.dumps(_labels(case))
            alike.setdefault(key, []).append(number)
        outcomes: dict[int, Decision | Undecided] = {}
        for numbers in alike.values():
            outcomes |= zip(numbers, self._outcomes([cases[each] for each in numbers]), strict=True)
        return [
            Judged(case, answer, outcomes[number])
            for number, (case, answer) in enumerate(zip(cases, self._answers(cases), strict=True))
        ]

    def _outcomes(self, cases: Sequence[Case]) -> list[Decision | Undecided]:
        """What the policies decide about cases with the same settings and the same namespace."""
        found = self.checks(cases[0].settings)
        decided = offline.decide(
            [each for check in found for each in (check.policy, check.binding)],
            [case.review() for case in cases],
            _labels(cases[0]),
            progress=self._progress,
        )
        return [each.outcome for each in decided]

    def _answers(self, cases: Sequence[Case]) -> list[evaluate.Answer]:
        """What OPA answers for the intents with policies, as to their webhooks."""
        questions = [self._question(case) for case in cases]
        return evaluate.ask(questions, self._progress, folder=self._folder)

    def _question(self, case: Case) -> evaluate.Question:
        intents = sorted({check.intent for check in self.checks(case.settings)})
        known = {
            name: {"metadata": {"name": name, "labels": labels}}
            for name, labels in _labels(case).items()
        }
        return evaluate.Question({**case.review(), "intents": intents}, case.settings, known)


def _labels(case: Case) -> dict[str, dict[str, str]]:
    """The labels of the case's namespace, by its name."""
    assert case.namespace  # noqa: S101 - pods have one
    return {case.namespace.name: dict(case.namespace.labels)}


def with_object(case: Case, manifest: Mapping[str, Any]) -> Case:
    """The case with another object."""
    return replace(case, request=case.request.model_copy(update={"object": manifest}))


@dataclass(frozen=True)
class Example:
    """Requests about pods, and for each what another webhook changes after OPA: the parts of the
    spec that it takes from one of the requests, by its number.
    """

    batch: Batch
    changes: tuple[tuple[int, frozenset[str]], ...]

    @property
    def settings(self) -> Settings:
        """The settings of the requests."""
        return Settings.model_validate(self.batch.settings)

    def cases(self) -> list[Case]:
        """The requests as cases, with names of their own."""
        return [
            completion.case_of(replace(self.batch, asked=(one,)), f"final-state-{next(_NAMES)}")
            for one in self.batch.asked
        ]

    def changed(self, cases: Sequence[Case], left: Mapping[str, Case]) -> list[Case]:
        """The cases with what the other webhook makes of their objects, as OPA has `left` them."""
        return [
            with_object(case, _changed(left.get(case.name, case), cases[number], parts))
            for case, (number, parts) in zip(cases, self.changes, strict=True)
        ]


def _changed(case: Case, other: Case, parts: frozenset[str]) -> dict[str, Any]:
    manifest, theirs = case.request.manifest, other.request.manifest["spec"]
    kept = {key: value for key, value in manifest["spec"].items() if key not in parts}
    taken = {key: value for key, value in theirs.items() if key in parts}
    return {**manifest, "spec": {**kept, **taken}}


def _examples() -> st.SearchStrategy[Example]:
    """Pods, and settings of the intents whose final state policies check."""
    pods = ("/Pod",)
    placement = batches.of(
        placement_requests.settings(),
        placement_requests.reviews(pods),
        placement_requests.labels(),
    )
    sidecars = batches.of(
        container_requests.sidecars().map(_refusing),
        container_requests.reviews(pods),
        container_requests.labels(),
    )
    number = st.integers(0, BATCH - 1)
    change = st.tuples(number, st.frozensets(st.sampled_from(_PARTS), min_size=1))
    changes = st.lists(change, min_size=BATCH, max_size=BATCH).map(tuple)
    return st.builds(Example, batch=placement | sidecars, changes=changes)


def _refusing(sidecar: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with this sidecar, which refuse what conflicts with it."""
    parameters = {**sidecar["parameters"], "on_conflict": "refuse"}
    return {"intents": {"sidecar-injection": {**sidecar, "parameters": parameters}}}


def run(*, seed: int, progress: Progress, examples: int, folder: Path | None = None) -> Search[Any]:
    """Judge the final states of `examples` pods: as they came, as OPA leaves them, and as another
    webhook leaves them then. Many are judged at once, so the smallest failing example is the
    shortest of those that differ. It is a case as in a file of cases.
    """
    every = drawn(
        _examples(),
        examples=-(-examples // BATCH),
        seed=seed,
        name="final states",
        progress=progress,
    )
    judge, result = Judge(progress, folder), Search[Any]()
    checked = [each for each in every if judge.checks(each.settings)]  # elsewhere, webhooks stay
    for start in range(0, len(checked), _AT_ONCE):
        states = _final_states(judge, checked[start : start + _AT_ONCE])
        judged = judge.judged(states)
        result.outcomes.update(each.words for each in judged)
        result.tried = result.outcomes.total()
        if wrong := [each for each in judged if each.wrong]:
            smallest = min(wrong, key=lambda each: len(json.dumps(agreement.document(each.case))))
            expect = Expect(allowed=smallest.answer.allowed)
            result.failing = agreement.document(replace(smallest.case, expect=expect))
            result.why = f"the final state is judged differently: {smallest.wrong}"
            break
        progress.update("final states", "judged", done=start, total=len(checked))
    return result


def _final_states(judge: Judge, examples: Sequence[Example]) -> list[Case]:
    cases = [example.cases() for example in examples]
    came = [case for several in cases for case in several]
    left = judge.left_by_opa(came)
    changed = [
        case
        for example, several in zip(examples, cases, strict=True)
        for case in example.changed(several, left)
    ]
    return [*came, *left.values(), *changed]

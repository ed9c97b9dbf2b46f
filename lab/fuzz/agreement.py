"""Compares engines by their decisions on requests that a real API server accepts: whether they
allow it, the object afterwards, and whether they warn.

Policies of an API server take seconds to come into force, so the requests of many batches are asked
about at once. Only if a difference is found, the batches are drawn again in the same order, and
smaller ones are looked for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from fairlead import verification
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.engines.base import Decision, Engine, Outcome
from fairlead.engines.live import marker
from fairlead.policy.cases import Case, Expect
from fairlead.policy.policy_set import PolicySet
from fairlead.verification.comparison import without_note
from lab.engines.cel import CelEngine
from lab.engines.live import clusters
from lab.engines.live.scene import Scene
from lab.fuzz import completion, disagreements
from lab.fuzz.completion import Completed, plain
from lab.fuzz.disagreements import Answer
from lab.fuzz.engine_batches import BATCH, Batch, batches
from lab.fuzz.search import Search, Violation, drawn, search

_AT_ONCE = 200
"""Requests that are asked about at once. Every five have the same settings, which make up to twenty
policies, and an API server matches all policies with every request."""
_NAMES = itertools.count()


@dataclass(frozen=True)
class Difference:
    """A request that engines decide differently: the case, which expects what the first engine
    decides, and what differs.
    """

    case: Case
    why: str


class Comparison:
    """Asks `engines` about requests. `scene` is an API server without policies, which completes
    them.

    Each request is asked about once: while a smaller example is looked for, most have been asked
    about before.
    """

    def __init__(self, engines: Sequence[Engine], scene: Scene, progress: Progress) -> None:
        self._engines = engines
        self._scene = scene
        self._progress = progress
        self._known: dict[str, Difference | None] = {}
        self.outcomes: Counter[str] = Counter()

    def difference(self, batch: Batch) -> Difference | None:
        """The first difference about the requests of a batch."""
        self.ask([batch])
        found = (self._known.get(repr(single)) for single in _singles(batch))
        return next(filter(None, found), None)

    def ask(self, several: Sequence[Batch]) -> None:
        """Ask about all requests of the batches, unless one is known to be decided differently."""
        singles = {repr(single): single for batch in several for single in _singles(batch)}
        if any(self._known.get(key) for key in singles):
            return
        asked: dict[str, Completed] = {}
        for key, single in singles.items():
            if key not in self._known:
                self._known[key] = None
                case = completion.case_of(single, f"fuzz-{next(_NAMES)}")
                completed = completion.completed(self._scene, case)
                if isinstance(completed, str):
                    self.outcomes["refused by the API server itself"] += 1
                else:
                    asked[key] = completed
        decisions = self._decisions([completed.case for completed in asked.values()])
        for (key, completed), decided in zip(asked.items(), decisions, strict=True):
            self._known[key] = self._compared(completed, decided)

    def _decisions(self, cases: Sequence[Case]) -> list[dict[str, Outcome]]:
        """What each engine that can express a case decides, by its name."""
        decisions: dict[str, dict[str, Outcome]] = {case.name: {} for case in cases}
        for engine in self._engines:
            expressible = [case for case in cases if not _inexpressible(engine, case)]
            for number, (case, outcome) in enumerate(
                engine.decide(expressible, self._progress) if expressible else ()
            ):
                decisions[case.name][engine.name] = outcome
                self._progress.update(engine.name, "asked", done=number, total=len(expressible))
        return [decisions[case.name] for case in cases]

    def _compared(self, one: Completed, decisions: Mapping[str, Outcome]) -> Difference | None:
        if len(decisions) < 2:
            self.outcomes["not expressible"] += 1
            return None
        answers = {name: _answer(outcome, one) for name, outcome in decisions.items()}
        (first, expected), *others = answers.items()
        self.outcomes[_outcome(expected, one.case)] += 1
        for name, answer in others:
            if found := disagreements.between(expected, answer):
                case = replace(one.case, expect=_expectation(expected))
                return Difference(case, f"{first} and {name} differ: {found.why}")
        return None


def _answer(outcome: Outcome, asked: Completed) -> Answer:
    if not isinstance(outcome, Decision):
        return Answer(None, outcome.reason)
    # Only engines that are webhooks write a note, for the webhook of the final state.
    after = None if outcome.object is None else plain(without_note(outcome.object))
    warnings = tuple(w for w in outcome.warnings if w not in asked.warnings)
    return Answer(outcome.allowed, outcome.message, after, warnings)


def _outcome(answer: Answer, case: Case) -> str:
    """The answer in a few words."""
    if not answer.allowed:
        return "refused" if answer.allowed is False else "undecided"
    changed = disagreements.filled(answer.object) != disagreements.filled(
        plain(case.request.manifest)
    )
    words = [word for word, holds in (("changed", changed), ("warned", answer.warnings)) if holds]
    return " and ".join(words) or "allowed"


def _expectation(answer: Answer) -> Expect:
    """What a case expects that gets this answer."""
    if not answer.allowed:
        return Expect(allowed=False)
    warnings = [*answer.warnings] if answer.warnings else []
    return Expect(allowed=True, object=answer.object, warnings=warnings)


def _singles(batch: Batch) -> list[Batch]:
    """A batch for each request. API servers know of every namespace, and refuse requests for those
    that do not exist.
    """
    known = (replace(one, labels=one.labels or {}, replicated=True) for one in batch.asked)
    return [replace(batch, asked=(one,)) for one in known]


def _inexpressible(engine: Engine, case: Case) -> bool:
    """Whether the engine cannot express one of the intents in force for the case."""
    intents = {case.intent, *completion.intents(case.given)}
    return any(engine.inexpressible(replace(case, intent=intent)) for intent in intents)


def run(
    names: Sequence[str],
    *,
    seed: int,
    progress: Progress,
    examples: int,
    policies: PolicySet | None = None,
    cluster: BareCluster | None = None,
    shrink: bool = True,
) -> Search[Any]:
    """Ask the engines of these names, and by all means `cel`, about `examples` requests, and look
    for a smaller one that they decide differently if `shrink`. The failing example is a case as in
    a file of cases. `cluster` is an embedded one without policies, by default a new one.
    """
    others = verification.load([name for name in names if name != CelEngine.name], policies)

    count = -(-examples // BATCH)
    every = drawn(batches(), examples=count, seed=seed, name="requests", progress=progress)
    with ExitStack() as stack:
        if cluster is None:
            cluster = stack.enter_context(clusters.bare(progress))
        api = clusters.api(cluster)
        scene = Scene(api, stack.enter_context(marker.placed(api)))
        compared = Comparison([*others, CelEngine(policies, cluster)], scene, progress)
        result: Search[Any] = Search()
        for several in _chunks(every):
            compared.ask(several)
            if difference := next(filter(None, map(compared.difference, several)), None):
                result.failing, result.why = document(difference.case), difference.why
                break
        result.outcomes = Counter(compared.outcomes)
        result.tried = result.outcomes.total()

        def check(batch: Batch) -> str:
            difference = compared.difference(batch)
            if difference is not None:
                raise Violation(difference.why)
            return ""

        if result.why and shrink:
            smallest = search(
                batches(), check, examples=count, seed=seed, name="requests", progress=progress
            ).failing
            if smallest is not None and (difference := compared.difference(smallest)):
                result.failing, result.why = document(difference.case), difference.why
    return result


def _chunks(every: Sequence[Batch]) -> Iterator[Sequence[Batch]]:
    size = _AT_ONCE // BATCH
    return (every[start : start + size] for start in range(0, len(every), size))


def document(case: Case) -> dict[str, Any]:
    """The case as it stands in a file of cases."""
    parts = {
        "name": "a name that says what this is about",
        "intent": case.intent,
        "settings": case.given,
        "namespace": case.namespace and case.namespace.model_dump(exclude_defaults=True),
        "request": case.request.model_dump(by_alias=True, exclude_defaults=True),
        "expect": case.expect.model_dump(exclude_none=True),
    }
    return {key: value for key, value in parts.items() if value}

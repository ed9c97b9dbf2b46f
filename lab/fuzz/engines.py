"""Compares the engines: all must give the same answer to any request, under any settings.

The policies in Rego and those in Python get any request that OPA could get, and their answers must
be the same to the letter. Then all of them get requests that an API server accepts (agreement.py).
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlead.admission import evaluate
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.engines.python import decisions
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.fuzz import ENGINES, agreement
from lab.fuzz.engine_batches import BATCH, Asked, Batch, batches
from lab.fuzz.search import Search, Violation, search

_SHARE = 5
"""One of so many examples is also asked of admission policies, where it takes longer."""


def run(
    *,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    examples: int = 5_000,
    engines: Collection[str] = ENGINES,
    shrink: bool = True,
) -> dict[str, Any]:
    """Ask `engines` about `examples` requests, and look for the smallest that gets different
    answers if `shrink`. Returns the result as Search.result does. Raises UsageError if there is
    only one engine.
    """
    began = time.monotonic()
    names = [name for name in ENGINES if name in engines]
    if len(names) < 2:
        raise UsageError(f"name two engines to compare, of {', '.join(ENGINES)}: --engine NAME")
    result: Search[Any] = Search()
    policy_set = PolicySet.load(Settings(), policies)
    if {"opa", "python"} <= {*names}:
        result.add(_alone(seed, progress, policy_set, examples, shrink))
    count = -(-examples // _SHARE)
    if "cel" in names and not result.why:
        result.add(
            agreement.run(
                names,
                seed=seed,
                progress=progress,
                examples=count,
                policies=policy_set,
                shrink=shrink,
            )
        )
    return result.result("engines", seed, began, lambda document: document)


def _alone(
    seed: int, progress: Progress, policies: PolicySet, examples: int, shrink: bool
) -> Search[Any]:
    """The comparison of opa and python without an API server. An example is a batch, because one
    process of OPA answers many questions as fast as one.
    """
    outcomes: Counter[str] = Counter()
    searched = search(
        batches(),
        lambda batch: _compared(batch, policies, progress, outcomes),
        examples=-(-examples // BATCH),
        seed=seed,
        name="engines",
        progress=progress,
        shrink=shrink,
    )
    smallest = searched.failing
    document = None if smallest is None else _document(smallest, policies)
    return Search(outcomes.total(), outcomes, document, searched.why)


@dataclass(frozen=True)
class Answers:
    """The two answers to a request, as they stand in reviews, but with patches decoded; None
    without an answer.
    """

    asked: Asked
    rego: Mapping[str, Any] | None
    python: Mapping[str, Any] | None

    @property
    def outcome(self) -> str:
        """The answer in a few words."""
        answer = self.python or {}
        if not answer.get("allowed"):
            return "refused"
        further = {"patch": "changed", "warnings": "warned"}
        words = [word for key, word in further.items() if key in answer]
        return " and ".join(words) or "allowed"


def ask(batch: Batch, policies: PolicySet, progress: Progress) -> list[Answers]:
    """The answers to all requests of a batch, by the policies."""
    settings = Settings.model_validate(batch.settings)
    questions = [asked.question(settings) for asked in batch.asked]
    in_rego = evaluate.ask(questions, policies, progress)
    in_python = decisions.of_policies(policies.under(settings))
    return [
        Answers(
            asked, _readable(answer.review), _readable(in_python.answer(asked.review, asked.labels))
        )
        for asked, answer in zip(batch.asked, in_rego, strict=True)
    ]


def _compared(batch: Batch, policies: PolicySet, progress: Progress, outcomes: Counter[str]) -> str:
    for answers in ask(batch, policies, progress):
        if answers.rego != answers.python:
            texts = json.dumps(answers.rego), json.dumps(answers.python)
            raise Violation("Rego answers {}, and Python {}".format(*texts))
        outcomes[answers.outcome] += 1
    return ""


def _document(batch: Batch, policies: PolicySet) -> Any:
    different = [each for each in ask(batch, policies, Progress()) if each.rego != each.python]
    return {"settings": batch.settings, "asked": [asdict(each.asked) for each in different]}


def _readable(answer: Mapping[str, Any] | None) -> Any:
    """The response with its patch decoded."""
    if answer is None:
        return None
    response = dict(answer["response"])
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"]))
    return response

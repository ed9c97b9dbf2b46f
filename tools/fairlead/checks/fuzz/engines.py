"""Compares the policies in Rego with those in Python: both must give the same answer to any
request, under any settings.

An example is a batch, because one process of OPA answers many questions as fast as one.
"""

from __future__ import annotations

import base64
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

from fairlead.analysis import evaluate
from fairlead.analysis.evaluate import Question
from fairlead.checks.fuzz import container_requests, placement_requests, replica_requests
from fairlead.checks.fuzz.search import Violation, search
from fairlead.common.progress import Progress
from fairlead.engines.python import decisions
from fairlead.settings.models import Settings

BATCH = 5
"""Questions to one process of OPA. Hypothesis bounds the size of an example: it would make more of
them plainer."""


@dataclass(frozen=True)
class Asked:
    """A review, and the labels of its namespace; None if there is no such namespace. OPA has those
    that are `replicated`, and looks others up.
    """

    review: Mapping[str, Any]
    labels: Mapping[str, str] | None
    replicated: bool

    def question(self, settings: Settings) -> Question:
        """The same for OPA."""
        name = self.review["request"].get("namespace", "")
        found = {} if self.labels is None else {name: _namespace(name, self.labels)}
        known, unknown = (found, {}) if self.replicated else ({}, found)
        return Question(self.review, settings, known, unknown)


@dataclass(frozen=True)
class Batch:
    """Requests under the same settings, which are in the form of the file."""

    settings: Mapping[str, Any]
    asked: tuple[Asked, ...]


def run(
    *,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    examples: int = 5_000,
    shrink: bool = True,
) -> dict[str, Any]:
    """Ask about `examples` requests, and look for the smallest that gets different answers if
    `shrink`. Returns the result as Search.result does.
    """
    began = time.monotonic()
    outcomes: Counter[str] = Counter()
    result = search(
        batches(),
        lambda batch: _compared(batch, policies, progress, outcomes),
        examples=-(-examples // BATCH),
        seed=seed,
        name="engines",
        progress=progress,
        shrink=shrink,
    )
    result.tried, result.outcomes = outcomes.total(), outcomes
    return result.result("engines", seed, began, lambda batch: _document(batch, policies))


def batches() -> st.SearchStrategy[Batch]:
    """Requests about which some policy has a say, and settings that shape its answers."""
    placement = _batches(
        placement_requests.settings(),
        placement_requests.reviews() | replica_requests.reviews(),
        placement_requests.labels(),
    )
    containers = _batches(
        st.fixed_dictionaries(
            {"intents": container_requests.intents()},
            optional={"enforcement": st.sampled_from(("deny", "warn"))},
        ),
        container_requests.reviews(),
        container_requests.labels(),
    )
    return placement | containers


def _batches(
    settings: st.SearchStrategy[Any],
    reviews: st.SearchStrategy[Any],
    labels: st.SearchStrategy[Any],
) -> st.SearchStrategy[Batch]:
    asked = st.builds(Asked, review=reviews, labels=labels, replicated=st.booleans())
    several = st.lists(asked, min_size=BATCH, max_size=BATCH).map(tuple)
    return st.builds(Batch, settings=settings, asked=several)


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


def ask(batch: Batch, folder: Path | None, progress: Progress) -> list[Answers]:
    """The answers to all requests of a batch, by the policies of `folder`, or the checkout's."""
    settings = Settings.model_validate(batch.settings)
    questions = [asked.question(settings) for asked in batch.asked]
    in_rego = evaluate.ask(questions, progress, folder=folder)
    policies = decisions.of_folder(settings, folder)
    return [
        Answers(
            asked, _readable(answer.review), _readable(policies.answer(asked.review, asked.labels))
        )
        for asked, answer in zip(batch.asked, in_rego, strict=True)
    ]


def _compared(batch: Batch, folder: Path | None, progress: Progress, outcomes: Counter[str]) -> str:
    for answers in ask(batch, folder, progress):
        if answers.rego != answers.python:
            texts = json.dumps(answers.rego), json.dumps(answers.python)
            raise Violation("Rego answers {}, and Python {}".format(*texts))
        outcomes[answers.outcome] += 1
    return ""


def _document(batch: Batch, folder: Path | None) -> Any:
    different = [each for each in ask(batch, folder, Progress()) if each.rego != each.python]
    return {"settings": batch.settings, "asked": [asdict(each.asked) for each in different]}


def _namespace(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


def _readable(answer: Mapping[str, Any] | None) -> Any:
    """The response with its patch decoded."""
    if answer is None:
        return None
    response = dict(answer["response"])
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"]))
    return response

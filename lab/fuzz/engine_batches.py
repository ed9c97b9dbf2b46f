"""Requests and settings for the comparison of engines, as strategies of hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st

from fairlead.admission.evaluate import Question
from fairlead.settings.models import Settings
from lab.fuzz import engine_container_requests, engine_pool_requests, engine_replica_requests
from lab.fuzz.parts import Strategy

BATCH = 5
"""Requests with the same settings. Hypothesis bounds the size of an example: it would make more of
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
        labels = self.labels
        found = {} if labels is None else {name: {"metadata": {"name": name, "labels": labels}}}
        known, unknown = (found, {}) if self.replicated else ({}, found)
        return Question(self.review, settings, known, unknown)


@dataclass(frozen=True)
class Batch:
    """Requests under the same settings, which are in the form of the file."""

    settings: Mapping[str, Any]
    asked: tuple[Asked, ...]


def batches() -> st.SearchStrategy[Batch]:
    """Requests about which some policy has a say, and settings that shape its answers."""
    placement = _batches(
        engine_pool_requests.settings(),
        engine_pool_requests.reviews() | engine_replica_requests.reviews(),
        engine_pool_requests.labels(),
    )
    containers = _batches(
        st.fixed_dictionaries(
            {"intents": engine_container_requests.intents()},
            optional={"enforcement": st.sampled_from(("deny", "warn"))},
        ),
        engine_container_requests.reviews(),
        engine_container_requests.labels(),
    )
    return placement | containers


def _batches(settings: Strategy, reviews: Strategy, labels: Strategy) -> st.SearchStrategy[Batch]:
    asked = st.builds(Asked, review=reviews, labels=labels, replicated=st.booleans())
    several = st.lists(asked, min_size=BATCH, max_size=BATCH).map(tuple)
    return st.builds(Batch, settings=settings, asked=several)

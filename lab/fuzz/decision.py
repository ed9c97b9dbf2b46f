"""Compares the short ways of the decision with the general rules: both must give the same answer to
any review, under any settings.

Three rules answer for many, because a decision costs what its rules cost: the first body of
`data.system.main`, `data.node_pool.ordinary` and `data.review.readable`. OPA evaluates the general
rules beside them, with `ordinary` taken away. Thousands of reviews are asked about at once, so
the smallest example is the shortest of those that differ.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

from fairlead.common.progress import Progress
from fairlead.engines.python.api import get
from fairlead.engines.python.pods import TEMPLATES
from fairlead.opa import cli
from fairlead.policy import bundles, tables
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.fuzz import engine_pool_requests
from lab.fuzz.search import Search, search

EXAMPLES = 100_000
_AT_ONCE = 200
"""Reviews for one process of OPA."""
_ORDINARY = "ordinary"
# An undefined answer leaves its array empty.
_MODULE = """
package fairlead_decision

compared := [answers |
	some question in data.fairlead_questions
	answers := {
		"short": [answer | answer := data.system.main.response],
		"ordinary": count([true | data.node_pool.ordinary]),
		"readable": count([true | data.review.readable]),
		"problems": data.review.found_problems,
		"general": _general(question),
	} with input as question.review
		with data.kubernetes.namespaces as question.namespaces
		with data.settings as data.fairlead_settings[question.settings].settings
		with data.intents.requests as data.fairlead_settings[question.settings].requests
		with opa.runtime as data.fairlead_environment
		with http.send as question.lookup
]

_general(question) := answer if {
	answer := [answer | answer := data.system.general_response] with input as question.review
		with data.kubernetes.namespaces as question.namespaces
		with data.settings as data.fairlead_settings[question.settings].settings
		with data.intents.requests as data.fairlead_settings[question.settings].requests
		with data.node_pool.ordinary as false
		with opa.runtime as data.fairlead_environment
		with http.send as question.lookup
}
"""
_ENVIRONMENT = {"env": {"FAIRLEAD_NAMESPACES_URL": "https://sidecar", "FAIRLEAD_CA_FILE": "ca.crt"}}
_ODD: tuple[Any, ...] = (None, False, True, 0, 7, "", "x", [], ["x"], {}, {"x": "y"})
_SPOTS = (
    *(("request", key) for key in ("uid", "kind", "namespace", "operation", "subResource")),
    ("request", "kind", "group"),
    ("request", "kind", "kind"),
    ("request", "object"),
    ("request", "oldObject"),
    ("request", "userInfo"),
    ("apiVersion",),
    ("intents",),
    *(
        ("request", side, "spec", *field)
        for side in ("object", "oldObject")
        for field in (
            (),
            ("nodeName",),
            ("nodeSelector",),
            ("tolerations",),
            ("schedulingGates",),
            ("template", "spec"),
            ("template", "spec", "nodeSelector"),
        )
    ),
    ("request", "object", "metadata"),
    ("request", "object", "metadata", "annotations"),
)
"""What malformed reviews have odd values at."""


@dataclass(frozen=True)
class Asked:
    """A review, the settings in the form of the file, and the labels of the namespaces; None if
    there are none. OPA has them if they are `replicated`, and looks them up otherwise.
    """

    settings: Mapping[str, Any]
    review: Mapping[str, Any]
    labels: Mapping[str, str] | None
    replicated: bool


def run(
    *,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    examples: int = EXAMPLES,
    spoil: Callable[[Bundle], Bundle] = lambda bundle: bundle,
) -> dict[str, Any]:
    """Compare the answers to at least `examples` pairs of a review and settings: each of the drawn
    reviews is asked about under each of the drawn settings, because to draw takes longest.
    Returns the result as Search.result does.

    `spoil` changes the bundle before it is asked.
    """
    began = time.monotonic()
    drawn: list[Asked] = []

    def remember(asked: Asked) -> str:
        drawn.append(asked)
        return ""

    draws = math.isqrt(examples - 1) + 1
    search(_asked(), remember, examples=draws, seed=seed, name="decision", progress=progress)
    pairs = [
        replace(one, settings=other.settings) for one, other in itertools.product(drawn, repeat=2)
    ]
    policy_set = PolicySet.load(Settings(), policies)
    bundle = spoil(policy_set.bundle)
    documents = {_key(asked.settings): _documents(asked.settings, policy_set) for asked in drawn}
    outcomes: Counter[str] = Counter()
    different: list[tuple[Asked, str]] = []
    for start in range(0, len(pairs), _AT_ONCE):
        several = pairs[start : start + _AT_ONCE]
        progress.update("decision", "comparing", done=start, total=len(pairs))
        answered = _answers(several, bundle, documents, progress)
        for asked, answers in zip(several, answered, strict=True):
            outcomes[_ORDINARY if answers["ordinary"] else "general"] += 1
            if why := _difference(answers):
                different.append((asked, why))
    result: Search[Asked] = Search(len(pairs), outcomes)
    if different:
        smallest = min(different, key=lambda one: len(json.dumps(_document(one[0]))))
        result.failing, result.why = smallest
    return result.result("decision", seed, began, _document)


def _asked() -> st.SearchStrategy[Asked]:
    settings = engine_pool_requests.settings().map(_of_placement)
    reviews = engine_pool_requests.reviews()
    left = reviews.map(_left_to_pool)
    return st.builds(
        Asked,
        settings=settings,
        review=st.one_of(reviews, left, left, _malformed()),
        labels=engine_pool_requests.labels(),
        replicated=st.sampled_from((True, True, True, False)),
    )


def _of_placement(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without those of other intents: one process has the same intents for all."""
    own = {name: of for name, of in settings.get("intents", {}).items() if name == "node-pool"}
    return {**settings, "intents": own}


def _left_to_pool(review: Mapping[str, Any]) -> dict[str, Any]:
    """The review of a similar object that names no other pool: more of them are ordinary."""
    left: dict[str, Any] = copy.deepcopy(dict(review))
    manifest = left["request"]["object"]
    spec = get(manifest, *TEMPLATES.get(_kind(left), ()), "spec")
    if isinstance(spec, dict) and spec.get("nodeSelector") != {"agentpool": "pool1"}:
        spec["nodeSelector"] = {}
    return left


def _kind(review: Mapping[str, Any]) -> str:
    kind = review["request"]["kind"]
    return f"{kind['group']}/{kind['kind']}"


@st.composite
def _malformed(draw: st.DrawFn) -> dict[str, Any]:
    """A review with an odd value in the place of some others."""
    review: dict[str, Any] = copy.deepcopy(draw(engine_pool_requests.reviews()))
    for *path, last in draw(st.lists(st.sampled_from(_SPOTS), min_size=1, max_size=2)):
        parent: Any = review
        for key in path:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if isinstance(parent, dict):
            parent[last] = draw(st.sampled_from(_ODD))
    return review


def _answers(
    several: Sequence[Asked], bundle: Bundle, documents: Mapping[str, Any], progress: Progress
) -> list[Mapping[str, Any]]:
    data = {
        "fairlead_environment": _ENVIRONMENT,
        "fairlead_settings": documents,
        "fairlead_questions": [_question(asked) for asked in several],
    }
    modules = {**bundle.modules, "fairlead_decision.rego": _MODULE}
    answers: list[Mapping[str, Any]] = cli.evaluate(
        "data.fairlead_decision.compared", modules=modules, data=data, progress=progress
    )
    return answers


def _documents(settings: Mapping[str, Any], policies: PolicySet) -> dict[str, Any]:
    """What policies read of the settings."""
    in_force = policies.under(Settings.model_validate(settings))
    return {
        "settings": bundles.settings_document(in_force.settings, in_force.active),
        "requests": tables.requests(in_force.active),
    }


def _question(asked: Asked) -> dict[str, Any]:
    labels = asked.labels
    names = () if labels is None else ("payments", "training")
    namespaces = {name: {"metadata": {"name": name, "labels": labels}} for name in names}
    one = namespaces.get("payments")
    return {
        "review": asked.review,
        "settings": _key(asked.settings),
        "namespaces": namespaces if asked.replicated else {},
        "lookup": {"status_code": 404, "body": {}}
        if one is None
        else {"status_code": 200, "body": one},
    }


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _difference(answers: Mapping[str, Any]) -> str:
    """What differs; empty if nothing does."""
    short, general = answers["short"], answers["general"]
    if short != general:
        texts = json.dumps(short), json.dumps(general)
        return "the short way answers {}, and the general rules {}".format(*texts)
    if bool(answers["readable"]) == bool(answers["problems"]):
        return f"data.review.readable is {bool(answers['readable'])}, with {answers['problems']}"
    return ""


def _document(asked: Asked) -> dict[str, Any]:
    return {
        "settings": asked.settings,
        "review": asked.review,
        "labels": asked.labels,
        "replicated": asked.replicated,
    }

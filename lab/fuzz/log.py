"""Compares the short way of the decision log with the general rules: both must show the same of any
review.

`data.system.log._plain` answers for nearly all pods. OPA evaluates the general rules beside it, for
hundreds of reviews at once, so the smallest example is the shortest of those that differ.
"""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis.strategies as st

from fairlead.common import yaml_files
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import policy_files
from lab.fuzz.search import Search, search

EXAMPLES = 20_000
_AT_ONCE = 1_000
"""Reviews for one process of OPA."""
_PLAIN = "plain"
_MODULE = """
package fairlead_log

compared := [answers |
	some event in data.fairlead_events
	answers := {
		"plain": count([true | data.system.log._plain]),
		"mask": data.system.log.mask,
		"general": array.concat(
			[{"op": "upsert", "path": "/input", "value": data.system.log._fitting}],
			data.system.log._long_patch,
		),
	} with input as event
]
"""
_LONG = 256
"""The longest text that is shown whole; see policies/log.rego."""
_DEFAULT = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
    | {"tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"} | {
    "controller": True,
    "blockOwnerDeletion": True,
}
_TEXTS = ("", "x", "é\U0001f4a9", *(c * n for c in "x<\1é" for n in (_LONG, _LONG + 1)))
_ODD: tuple[Any, ...] = (
    *_TEXTS,
    *(None, False, True, 0, 300, 0.5, 10**_LONG, 10 ** (_LONG - 1)),
    {str(key): "<" * 200 for key in range(20)},
    *([], ["x"], [["x"]], [{}], [{"name": "x"}], {}, {"x": "y"}, {"x": ["y"]}, {"x": None}),
    *({"x" * n: "y"} for n in (_LONG, _LONG + 1)),
    *({str(key): "<" * 8 for key in range(n)} for n in (32, 33)),
    *(["\1" * 8] * n for n in (32, 33)),
    *([toleration] * n for toleration in _DEFAULT for n in (8, 9, 33)),
    [_OWNER, _OWNER],
)
_FURTHER = (
    *(("request", field) for field in ("subResource", "dryRun", "oldObject", "x")),
    *(
        ("request", "object", *field)
        for field in (
            ("metadata", "generateName"),
            ("metadata", "annotations"),
            ("metadata", "annotations", "kubernetes.io/config.mirror"),
            ("metadata", "ownerReferences", 0, "x"),
            ("metadata", "ownerReferences", 0, "value"),
            ("spec", "nodeName"),
            ("spec", "nodeSelector"),
            ("spec", "schedulingGates"),
            ("spec", "template"),
            ("spec", "jobTemplate"),
            ("spec", "tolerations", 0, "value"),
            ("spec", "tolerations", 0, "x"),
        )
    ),
)
"""Where odd values stand beside the parts of the review."""


def run(
    *,
    seed: int,
    progress: Progress,
    policies: Path | None = None,
    examples: int = EXAMPLES,
    spoil: Callable[[str], str] = lambda module: module,
) -> dict[str, Any]:
    """Compare what both ways show of a plain review with each odd value in each place, and of
    `examples` random ones. Returns the result as Search.result does.

    `policies` is ignored: no other folder has the module. `spoil` changes it before it is asked.
    """
    began = time.monotonic()
    drawn: list[Mapping[str, Any]] = list(_with_one_odd_value())

    def remember(event: Mapping[str, Any]) -> str:
        drawn.append(event)
        return ""

    search(_events(), remember, examples=examples, seed=seed, name="log", progress=progress)
    module = spoil(yaml_files.read_text(policy_files.builtin() / policy_files.LOG))
    outcomes: Counter[str] = Counter()
    different: list[Mapping[str, Any]] = []
    for start in range(0, len(drawn), _AT_ONCE):
        several = drawn[start : start + _AT_ONCE]
        progress.update("log", "comparing", done=start, total=len(drawn))
        for event, answers in zip(several, _answers(several, module, progress), strict=True):
            outcomes[_PLAIN if answers["plain"] else "general"] += 1
            if answers["mask"] != answers["general"]:
                different.append(event)
    result: Search[Mapping[str, Any]] = Search(len(drawn), outcomes)
    if different:
        result.failing = min(different, key=lambda event: len(json.dumps(event)))
        result.why = "the plain rule of the decision log shows another value than the general rules"
    return result.result("log", seed, began, dict)


def _answers(
    events: Sequence[Mapping[str, Any]], module: str, progress: Progress
) -> list[Mapping[str, Any]]:
    answers: list[Mapping[str, Any]] = cli.evaluate(
        "data.fairlead_log.compared",
        modules={policy_files.LOG: module, "fairlead_log.rego": _MODULE},
        data={"fairlead_events": list(events)},
        progress=progress,
    )
    return answers


def _with_one_odd_value() -> Iterator[dict[str, Any]]:
    texts = {"name": "web", "namespace": "team"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**texts, "labels": {"app": "web"}, "ownerReferences": [_OWNER]},
        "spec": {
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "gpu", "effect": "NoSchedule"}, *_DEFAULT],
        },
    }
    plain = _review(pod, None)
    for spot in (*_spots(plain), *_FURTHER):
        for odd in _ODD:
            review = copy.deepcopy(plain)
            _replace(review, spot, copy.deepcopy(odd))
            yield {"path": "system/main", "input": review, "result": {"response": {}}}


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    """An event of OPA: what it was asked, and its result."""
    review = _review(draw(_pods()), draw(st.none() | _pods()))
    for _ in range(draw(st.integers(0, 2))):
        spots = [*_spots(review), *_FURTHER]
        _replace(review, draw(st.sampled_from(spots)), copy.deepcopy(draw(st.sampled_from(_ODD))))
    patch = draw(st.sampled_from(("", "", "x" * 8192, "x" * 8193, None, 5)))
    return {
        "path": draw(st.sampled_from(("system/main", "system/main", "signed_bundle/main"))),
        "input": review,
        "result": {"response": {"allowed": True, **({} if patch == "" else {"patch": patch})}},
    }


def _review(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    request = {
        "uid": "1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team",
        "name": "web",
        "dryRun": False,
        "userInfo": {
            "username": "jane",
            "groups": ["dev", "system:authenticated"],
            "uid": "secret",
        },
        "object": new,
        "oldObject": old,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": copy.deepcopy(request),
    }


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    texts = st.sampled_from(("x", "web", "<" * 60, "é" * 100, "x" * _LONG))
    maps = st.dictionaries(
        st.sampled_from(("app", "a/b", "<" * 60, "x" * _LONG)), texts, max_size=4
    )
    toleration = st.fixed_dictionaries(
        {"key": texts, "operator": st.sampled_from(("Exists", "Equal"))},
        optional={
            "value": texts,
            "effect": texts,
            "tolerationSeconds": st.sampled_from((0, 60, -1)),
        },
    )
    metadata = st.fixed_dictionaries(
        {"name": texts, "namespace": st.just("team"), "labels": maps},
        optional={
            "annotations": st.sampled_from(({}, {"a": "secret"})),
            "ownerReferences": st.sampled_from(([], [_OWNER])),
        },
    )
    others = st.lists(toleration, max_size=3)
    spec = st.fixed_dictionaries(
        {
            "tolerations": others.map(lambda some: [*some, *_DEFAULT]),
            "containers": st.just(["secret"]),
        },
        optional={"nodeSelector": maps, "nodeName": texts},
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": draw(metadata),
        "spec": draw(spec),
        "status": {"a": "secret"},
    }


def _spots(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all parts of a value, but not of the value itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        spot
        for key, part in items
        for spot in (
            (*at, key),
            *(_spots(part, (*at, key)) if isinstance(part, dict | list) else ()),
        )
    ]


def _replace(value: Any, spot: Sequence[str | int], new: Any) -> None:
    """Put `new` at this path, unless there is nothing that it could be a part of."""
    for key in spot[:-1]:
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
    last = spot[-1]
    if isinstance(value, dict):
        value[str(last)] = new
    elif isinstance(value, list) and isinstance(last, int) and last < len(value):
        value[last] = new

"""Decides on thousands of requests at once with `opa eval`, for `fairlead audit`, `fairlead diff`
and `fairlead eval` as a gate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from fairlead.admission import decisions
from fairlead.admission.decisions import Decision
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.programs import toolchain

Question = TypeVar("Question")
Answer = TypeVar("Answer")

BATCH = 2500
"""The most requests for one process of OPA: about 10 MB, and few enough that progress is visible.
Fewer requests are divided among the processors, but a process gets at least SMALLEST."""
SMALLEST = 100

# The data hold every namespace, so the environment names no sidecar for lookups. http.send is
# mocked, so that no evaluation opens a connection. `_decided` is a rule of its own: OPA evaluates
# it once for each review, but the parts of an expression with a `with` each by itself. An undefined
# answer leaves its array empty.
_MODULE = """
package fairlead_decisions

decisions := [decided |
	some review in data.fairlead_reviews
	decided := _decided with input as review
		with opa.runtime as data.fairlead_environment
		with http.send as {"status_code": 404, "body": {}}
]

_decided := {
	"answer": [answer | answer := data.system.main],
	"placement": [placement |
		not data.exceptions.by_intent["node-pool"]
		placement := data.node_pool.placement
	],
	"excepted": [intent | some intent, _ in data.exceptions.by_intent],
	"intents": [intents | intents := data.system._decisions],
}
"""
_ENVIRONMENT: dict[str, dict[str, str]] = {"env": {}}


def decide(
    reviews: Sequence[Mapping[str, Any]],
    *,
    modules: Mapping[str, str],
    kubernetes: Mapping[str, Any],
    progress: Progress,
    name: str = "policies",
) -> list[Decision]:
    """The decisions, in the order of `reviews`.

    Args:
        modules: the policies with their settings, key -> text.
        kubernetes: `data.kubernetes`, which has all namespaces.
        name: the name under which progress is reported.

    Raises FairleadError if OPA fails on any of them.
    """

    def batch(questions: Sequence[Mapping[str, Any]]) -> list[Decision]:
        answers = cli.evaluate(
            "data.fairlead_decisions.decisions",
            modules={**modules, "fairlead_decisions.rego": _MODULE},
            data={
                "kubernetes": kubernetes,
                "fairlead_environment": _ENVIRONMENT,
                "fairlead_reviews": questions,
            },
            progress=progress,
        )
        return [_read(answer) for answer in answers]

    decided = in_batches(reviews, batch, progress=progress, name=name)
    progress.finish(name, f"decided {len(reviews)} requests")
    return decided


def in_batches(
    questions: Sequence[Question],
    ask: Callable[[Sequence[Question]], Sequence[Answer]],
    *,
    progress: Progress,
    name: str,
) -> list[Answer]:
    """The answers to all questions, in their order. `ask` starts a process of OPA for a part of
    them; it runs in several threads, one for each processor. What it raises ends all.
    """
    processors = cli.processors()
    size = min(BATCH, max(SMALLEST, -(-len(questions) // processors)))
    toolchain.ensure(["opa"], progress)  # once, and not in each thread
    answers: list[Answer] = []
    progress.update(name, "deciding", total=len(questions))
    parts = (questions[start : start + size] for start in range(0, len(questions), size))
    contexts = iter(copy_context, None)  # `cli.limits` of this thread hold in the others, too
    with ThreadPoolExecutor(processors) as pool:
        for part in pool.map(lambda context, part: context.run(ask, part), contexts, parts):
            answers += part
            progress.update(name, "deciding", done=len(answers), total=len(questions))
    return answers


def described(patch: Sequence[Mapping[str, Any]]) -> str:
    """A JSON Patch as one line of text, such as `add /spec/nodeSelector {"agentpool": "gpu"}`."""
    values = (
        f" {json.dumps(operation['value'], ensure_ascii=False)}" if "value" in operation else ""
        for operation in patch
    )
    return "; ".join(
        f"{operation['op']} {operation['path']}{value}"
        for operation, value in zip(patch, values, strict=True)
    )


def _read(decided: Mapping[str, Any]) -> Decision:
    placement: Mapping[str, Any] = next(iter(decided["placement"]), {})
    decision = Decision(
        **decisions.fields(next(iter(decided["answer"]), None)),
        pool=placement.get("pool"),
        selector=placement.get("nodeSelector", {}),
        intents=next(iter(decided["intents"]), {}),
        excepted=tuple(sorted(decided["excepted"])),
    )
    return decision.without_note()

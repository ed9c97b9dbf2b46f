"""Decides on thousands of requests at once with `opa eval`, for `fairlead audit`, `fairlead diff`
and `fairlead eval` as a gate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fairlead.admission.asked import Asked
from fairlead.admission.evaluate import NO_ANSWER
from fairlead.common.progress import Progress
from fairlead.kube import admission_reviews
from fairlead.opa import cli
from fairlead.programs import toolchain

Question = TypeVar("Question")
Answer = TypeVar("Answer")

BATCH = 2500
"""The most requests for one process of OPA: about 10 MB, and few enough that progress is visible.
Fewer requests are divided among the processors, but a process gets at least SMALLEST."""
SMALLEST = 100

# The data hold every namespace, so the environment names no sidecar for lookups. http.send is
# mocked, so that no evaluation opens a connection. All answers share one `with`, because each
# `with` makes OPA evaluate all rules again. An undefined answer leaves its array empty.
_MODULE = """
package fairlead_decisions

decisions := [decided |
	some review in data.fairlead_reviews
	decided := {
		"answer": [answer | answer := data.system.main],
		"placement": [placement | placement := data.node_pool.placement],
		"intents": [intents | intents := data.system._decisions],
	} with input as review
		with opa.runtime as data.fairlead_environment
		with http.send as {"status_code": 404, "body": {}}
]
"""
_ENVIRONMENT: dict[str, dict[str, str]] = {"env": {}}


@dataclass(frozen=True)
class Decision:
    """The decision on one request. `message` says why it is refused, `patch` is a JSON Patch.

    `pool` is the pool that decides on a pod, `selector` the labels of that pool's nodes. They are
    None and {} if no pool decides, and always for staged policies.

    `intents` has the decision of each intent, {deny, warn, patch}. `asked` is false if the API
    server decides without OPA; see `admitted`.
    """

    allowed: bool
    message: str
    warnings: tuple[str, ...]
    patch: tuple[dict[str, Any], ...]
    pool: str | None
    selector: Mapping[str, str]
    intents: Mapping[str, Any] = field(default_factory=dict)
    asked: bool = True

    def admitted(self, admission: Asked) -> Decision:
        """What the API server makes of the decision, or decides alone if it does not ask OPA."""
        if not admission.asked:
            message = admission.reason if admission.refused else ""
            return replace(
                self,
                allowed=not admission.refused,
                message=message,
                warnings=(),
                patch=(),
                intents={},
                asked=False,
            )
        patching = [intent for intent, decided in self.intents.items() if decided["patch"]]
        unpatched, error = admission.unpatched(patching if self.allowed else ())
        if not unpatched:
            return self
        intents = {
            intent: {**decided, "patch": []} if error or intent in unpatched else decided
            for intent, decided in self.intents.items()
        }
        patch = tuple(step for decided in intents.values() for step in decided["patch"])
        return replace(self, allowed=not error, message=error, patch=patch, intents=intents)


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

    decisions = in_batches(reviews, batch, progress=progress, name=name)
    progress.finish(name, f"decided {len(reviews)} requests")
    return decisions


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
    processors = os.cpu_count() or 1
    size = min(BATCH, max(SMALLEST, -(-len(questions) // processors)))
    toolchain.ensure(["opa"], progress)  # once, and not in each thread
    answers: list[Answer] = []
    progress.update(name, "deciding", total=len(questions))
    parts = (questions[start : start + size] for start in range(0, len(questions), size))
    with ThreadPoolExecutor(processors) as pool:
        for part in pool.map(ask, parts):
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
    pool, selector = placement.get("pool"), placement.get("nodeSelector", {})
    intents: Mapping[str, Any] = next(iter(decided["intents"]), {})
    answer = next(iter(decided["answer"]), None)
    if answer is None:
        return Decision(False, NO_ANSWER, (), (), pool, selector, intents)
    response = answer["response"]
    return Decision(
        allowed=response["allowed"],
        message=response.get("status", {}).get("message", ""),
        warnings=tuple(response.get("warnings", ())),
        patch=tuple(admission_reviews.patch_of(answer)),
        pool=pool,
        selector=selector,
        intents=intents,
    )

"""Runs conformance cases on engines, and compares the decisions with the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.checks.conformance.cases import Case, Expect
from fairlead.checks.conformance.engines.base import (
    Decision,
    Engine,
    Inexpressible,
    Outcome,
    Undecided,
)
from fairlead.common.progress import Progress


@dataclass(frozen=True)
class Result:
    """The result of one case on one engine. `passed` is None if the engine cannot express the case;
    `detail` says why, or what differs.
    """

    case: str
    intent: str
    engine: str
    passed: bool | None
    detail: str


def verify(cases: Sequence[Case], engines: Sequence[Engine], progress: Progress) -> list[Result]:
    """Run every case on every engine. The results are ordered by engine, then as `cases`.

    Raises FairleadError if an engine does not work or leaves a case out.
    """
    results = []
    for engine in engines:
        by_case = {}
        for case, outcome in engine.decide(cases, progress):
            by_case[case.name] = _result(case, engine, outcome)
            progress.update(engine.name, "cases", done=len(by_case), total=len(cases))
        progress.finish(engine.name, f"answered {len(by_case)} cases")
        results += [by_case[case.name] for case in cases]
    return results


def differences(expect: Expect, decision: Decision) -> list[str]:
    """The differences between `decision` and the expected answer, one line each."""
    if decision.allowed != expect.allowed:
        reason = f": {decision.message}" if decision.message else ""
        return [f"expected {_word(expect.allowed)}, got {_word(decision.allowed)}{reason}"]
    lines = []
    if expect.message is not None and expect.message not in decision.message:
        lines.append(f"message: expected a part {expect.message!r}, got {decision.message!r}")
    if expect.object is not None:
        lines += _different(expect.object, decision.object, "object")
    if expect.warnings == [] and decision.warnings:
        lines.append(f"warnings: expected none, got {list(decision.warnings)!r}")
    for part in expect.warnings or ():
        if not any(part in warning for warning in decision.warnings):
            lines.append(f"warnings: expected a part {part!r}, got {list(decision.warnings)!r}")
    return lines


def _result(case: Case, engine: Engine, outcome: Outcome) -> Result:
    if isinstance(outcome, Inexpressible):
        return Result(
            case.name, case.intent, engine.name, None, f"not expressible: {outcome.reason}"
        )
    lines = (
        [outcome.reason] if isinstance(outcome, Undecided) else differences(case.expect, outcome)
    )
    return Result(case.name, case.intent, engine.name, not lines, "\n".join(lines))


def _different(expected: Any, actual: Any, path: str) -> list[str]:
    """The parts of `expected` that `actual` lacks. Null means absent or empty, which Kubernetes
    does not distinguish.
    """
    if expected is None:
        return (
            []
            if actual is None or actual == {} or actual == []
            else [f"{path}: expected none, got {actual!r}"]
        )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            line
            for key, value in expected.items()
            for line in _different(value, actual.get(key), f"{path}.{key}")
        ]
    same = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return (
        []
        if same
        else [f"{path}: expected {expected!r}, got {'none' if actual is None else repr(actual)}"]
    )


def _word(allowed: bool) -> str:
    return "allowed" if allowed else "refused"

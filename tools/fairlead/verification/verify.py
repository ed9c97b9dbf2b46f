"""Runs conformance cases on engines, and compares the decisions with the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairlead.common import texts
from fairlead.common.progress import Progress
from fairlead.engines.base import Engine, Inexpressible, Outcome, Undecided
from fairlead.policy.cases import Case
from fairlead.policy.placement_cases import PlacementCase
from fairlead.verification import comparison


@dataclass(frozen=True)
class Result:
    """The result of one case on one engine. `passed` is None if the engine cannot express the case;
    `detail` says why, or what differs.

    For people, `fields` are what a failed case expects and what the engine answered, each with a
    label, and `diff` goes from the expected object to the actual one. `source` is the case itself.
    """

    case: str
    intent: str
    engine: str
    passed: bool | None
    detail: str
    source: Case | PlacementCase
    fields: tuple[tuple[str, str], ...] = ()
    diff: str = ""


def verify(cases: Sequence[Case], engines: Sequence[Engine], progress: Progress) -> list[Result]:
    """Run every case on every engine. The results are ordered by engine, then as `cases`.

    Raises FairleadError if an engine does not work or leaves a case out.
    """
    results = []
    for engine in engines:
        by_case = {
            case.name: _result(case, engine, Inexpressible(reason))
            for case in cases
            if (reason := engine.inexpressible(case))
        }
        expressible = [case for case in cases if case.name not in by_case]
        for case, outcome in engine.decide(expressible, progress) if expressible else ():
            by_case[case.name] = _result(case, engine, outcome)
            progress.update(engine.name, "cases", done=len(by_case), total=len(cases))
        progress.finish(engine.name, f"answered {texts.counted(len(by_case), 'case')}")
        results += [by_case[case.name] for case in cases]
    return results


def _result(case: Case, engine: Engine, outcome: Outcome) -> Result:
    def result(passed: bool | None, detail: str) -> Result:
        return Result(case.name, case.intent, engine.name, passed, detail, case)

    if isinstance(outcome, Inexpressible):
        return result(None, f"not expressible: {outcome.reason}")
    if isinstance(outcome, Undecided):
        return replace(result(False, outcome.reason), fields=(("no decision", outcome.reason),))
    lines = comparison.differences(case.expect, outcome)
    if not lines:
        return result(True, "")
    return replace(
        result(False, "\n".join(lines)),
        fields=tuple(comparison.fields(case.expect, outcome)),
        diff=comparison.diff(case.expect, outcome),
    )

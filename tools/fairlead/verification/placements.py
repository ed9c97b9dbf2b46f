"""Runs the cases of placement over clusters on engines, and compares the answers with the expected
ones."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fairlead.common import texts
from fairlead.common.progress import Progress
from fairlead.engines.base import DATA, Engine, Placer
from fairlead.policy.placement_cases import Expect, PlacementCase
from fairlead.verification.verify import Result

_NO_ANSWER = "the policies give no answer (data.k8s.placement is undefined)"


def verify(
    cases: Sequence[PlacementCase], engines: Sequence[Engine], progress: Progress
) -> list[Result]:
    """Run every case on every engine. The results are ordered by engine, then as `cases`.

    Raises FairleadError if an engine does not work.
    """
    results = []
    for engine in engines if cases else ():
        if isinstance(engine, Placer):
            answers = engine.place(cases, progress)
            results += [
                _result(case, engine.name, answer)
                for case, answer in zip(cases, answers, strict=True)
            ]
        else:
            detail = f"not expressible: {DATA}"
            results += [
                Result(case.name, case.intent, engine.name, None, detail, case) for case in cases
            ]
        progress.finish(engine.name, f"answered {texts.counted(len(cases), 'case')} of placement")
    return results


def _result(case: PlacementCase, engine: str, answer: Mapping[str, Any] | None) -> Result:
    if answer is None:
        fields = (("no decision", _NO_ANSWER),)
        return Result(case.name, case.intent, engine, False, _NO_ANSWER, case, fields)
    differing = _differences(case.expect, answer)
    return Result(
        case.name,
        case.intent,
        engine,
        not differing,
        "\n".join(differing),
        case,
        tuple(("" if number else "differs", line) for number, line in enumerate(differing)),
        _diff(case.expect.annotations, answer["annotations"]),
    )


def _differences(expect: Expect, answer: Mapping[str, Any]) -> list[str]:
    """The differences between the answer and the expected one, one line each."""
    lines = []
    if expect.annotations != answer["annotations"]:
        lines.append(f"annotations: expected {expect.annotations}, got {answer['annotations']}")
    for about in sorted({*expect.errors, *answer["errors"]}):
        parts, sentences = expect.errors.get(about, []), answer["errors"].get(about, [])
        if len(parts) != len(sentences) or not all(
            any(part in sentence for sentence in sentences) for part in parts
        ):
            lines.append(f"errors.{about}: expected parts {parts}, got {sentences}")
    for cluster, part in expect.explanation.items():
        sentence = answer["explanation"].get(cluster)
        if sentence is None or part not in sentence:
            lines.append(f"explanation.{cluster}: expected a part {part!r}, got {sentence!r}")
    return lines


def _diff(expected: Any, actual: Any) -> str:
    """The unified diff of annotations, as YAML; empty if they agree."""
    before, after = (yaml.safe_dump(value).splitlines() for value in (expected, actual))
    return "\n".join(difflib.unified_diff(before, after, "expected", "actual", lineterm=""))

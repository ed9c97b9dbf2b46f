"""Compares a decision with the one that a case expects."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import yaml

from fairlead.admission.decisions import NOTE
from fairlead.engines.base import Decision
from fairlead.policy.cases import Expect

_WIDTH = 76
"""Characters of a line of YAML, where a text can be folded: a terminal often has 80."""


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


def fields(expect: Expect, decision: Decision) -> Iterator[tuple[str, str]]:
    """What is expected of an answer, and the answer, but for the object: each with a label."""
    yield "expected", _word(expect.allowed)
    if expect.message is not None:
        yield "", f"message with {expect.message!r}"
    if expect.warnings == []:
        yield "", "no warnings"
    for part in expect.warnings or ():
        yield "", f"warning with {part!r}"
    yield "actual", _word(decision.allowed)
    if decision.message:
        yield "", f"message: {decision.message}"
    for warning in decision.warnings:
        yield "", f"warning: {warning}"
    if expect.warnings and not decision.warnings:
        yield "", "no warnings"


def diff(expect: Expect, decision: Decision) -> str:
    """The unified diff from the expected object to the actual one, as YAML; empty if they agree, or
    if one of them is refused.

    The expected object is the actual one with the parts that the case expects.
    """
    if expect.object is None or not decision.allowed:
        return ""
    actual = without_note(decision.object)
    expected = _merged(expect.object, actual)
    lines = difflib.unified_diff(_yaml(expected), _yaml(actual), "expected", "actual", lineterm="")
    return "\n".join(lines)


def without_note(manifest: Any) -> Any:
    """The object without the note of a new pod, which repeats its spec in one long line."""
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    if not isinstance(metadata, dict) or NOTE not in (metadata.get("annotations") or {}):
        return manifest
    others = {key: value for key, value in metadata["annotations"].items() if key != NOTE}
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**manifest, "metadata": {**rest, **({"annotations": others} if others else {})}}


def _different(expected: Any, actual: Any, path: str) -> list[str]:
    """The parts of `expected` that `actual` lacks. Null means absent or empty, which Kubernetes
    does not distinguish.
    """
    if expected is None:
        return [] if _is_empty(actual) else [f"{path}: expected none, got {actual!r}"]
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            line
            for key, value in expected.items()
            for line in _different(value, actual.get(key), f"{path}.{key}")
        ]
    is_equal = expected == actual and isinstance(expected, bool) == isinstance(actual, bool)
    return (
        []
        if is_equal
        else [f"{path}: expected {expected!r}, got {'none' if actual is None else repr(actual)}"]
    )


def _merged(expected: Any, actual: Any) -> Any:
    """`actual` with the parts that `_different` would miss in it, and without those that it would
    not expect.
    """
    if not isinstance(expected, dict):
        return expected
    merged = dict(actual) if isinstance(actual, dict) else {}
    for key, value in expected.items():
        if value is not None:
            merged[key] = _merged(value, merged.get(key))
        elif not _is_empty(merged.get(key)):
            del merged[key]
    return merged


def _is_empty(value: Any) -> bool:
    return value is None or value == {} or value == []


def _yaml(value: Any) -> list[str]:
    if value is None:
        return []
    return yaml.safe_dump(value, allow_unicode=True, width=_WIDTH).splitlines()


def _word(allowed: bool) -> str:
    return "allowed" if allowed else "refused"

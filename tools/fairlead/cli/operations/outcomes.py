"""Prints what a deployment did to objects, or would do."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from fairlead.cli import output as out
from fairlead.common import texts
from fairlead.operations.applying import CHANGED, CREATED, DELETED, UNCHANGED, UNKNOWN, Outcome
from fairlead.operations.object_comparison import FieldChange

_WIDTH = 60
"""Characters of a value that are shown."""


def emit_plan(outcomes: Sequence[Outcome], output: str) -> None:
    """Print what a deployment would do to objects."""
    documents = [outcome.document() for outcome in outcomes]
    out.emit(documents, output, lambda console: draw_plan(outcomes, console))


def draw_plan(outcomes: Sequence[Outcome], console: Console) -> None:
    """A line for each object that is not left as it is, with the fields that change below it, and a
    summary.
    """
    for outcome in outcomes:
        if outcome.action == UNCHANGED:
            continue
        _print(console, f"{outcome.reference} {outcome.action}")
        for change in outcome.fields:
            _print(console, f"    {_described(change)}")
        if outcome.note and outcome.action == UNKNOWN:
            _print(console, f"    {outcome.note}")
    counts = Counter(outcome.action for outcome in outcomes)
    words = {
        CREATED: "to create",
        CHANGED: "to change",
        DELETED: "to delete",
        UNCHANGED: "to leave as they are",
        UNKNOWN: "that cannot be read",
    }
    parts = [f"{counts[action]} {text}" for action, text in words.items() if counts[action]]
    _print(console, f"objects: {', '.join(parts)}")
    untried = [outcome for outcome in outcomes if outcome.note and outcome.action != UNKNOWN]
    if untried:
        _print(
            console,
            f"{len(untried)} of them could not be compared by a dry run, so that defaults may "
            f"count as changes: {untried[0].note}",
        )


def draw_result(outcomes: Sequence[Outcome], console: Console) -> None:
    """A line for each object that was applied."""
    for outcome in outcomes:
        _print(console, f"{outcome.reference} {outcome.action}")


def _print(console: Console, text: str) -> None:
    console.print(texts.printable(text), soft_wrap=True)


def _described(change: FieldChange) -> str:
    if change.hidden:
        return f"{change.path}: changed (the values of a Secret are not shown)"
    if change.old is None:
        return f"{change.path}: added {_short(change.new)}"
    if change.new is None:
        return f"{change.path}: removed {_short(change.old)}"
    old, new = change.old, change.new
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        removed, added = _items(old.splitlines(), new.splitlines())
        lines = "line" if len(added) == 1 else "lines"
        return f"{change.path}: {len(added)} {lines} added, {len(removed)} removed"
    if isinstance(old, list) and isinstance(new, list):
        removed, added = _items([_text(item) for item in old], [_text(item) for item in new])
        parts = [f"removed {_short(item)}" for item in removed]
        return f"{change.path}: {', '.join([*parts, *(f'added {_short(item)}' for item in added)])}"
    length = _common(old, new)
    return f"{change.path}: {_short(old, length)} -> {_short(new, length)}"


def _items(old: Sequence[str], new: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is removed, and what is added."""
    removed: list[str] = []
    added: list[str] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for _, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if list(old[old_start:old_end]) != list(new[new_start:new_end]):
            removed += old[old_start:old_end]
            added += new[new_start:new_end]
    return removed, added


def _common(old: Any, new: Any) -> int:
    """The number of characters that both values begin with, if that hides their difference."""
    texts = _text(old), _text(new)
    length = next(
        (index for index, (a, b) in enumerate(zip(*texts, strict=False)) if a != b),
        min(map(len, texts)),
    )
    return length if length > _WIDTH // 2 else 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _short(value: Any, skipped: int = 0) -> str:
    text = " ".join(_text(value).split())
    start = f"...{text[max(0, skipped - 5) :]}" if skipped else text
    return start if len(start) <= _WIDTH else f"{start[: _WIDTH - 3]}..."

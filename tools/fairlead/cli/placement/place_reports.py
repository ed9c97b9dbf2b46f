"""Prints what `fairlead place` could not place, and what `fairlead place --apply` did in the host
cluster."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from fairlead.cli import output as out
from fairlead.placement.decisions import Result

if TYPE_CHECKING:
    from fairlead.placement.karmada_apply import Report

_COLUMNS = ("cluster", "kind", "namespace", "name", "action")


def emit_errors(result: Result) -> None:
    """Print the errors of objects that have no clusters."""
    for placement in result.placements:
        for text in placement.sentences:
            out.error(f"{placement.title}: {text}")


def emit_notes(result: Result, printed: Collection[str] = ()) -> set[str]:
    """Print what else has to be known about the decisions, except what was `printed` before.
    Returns all of it.
    """
    notes = {
        f"{placement.title}: {text}": None
        for placement in result.placements
        for text in placement.notes
    } | dict.fromkeys(result.notes)
    for note in notes:
        if note not in printed:
            out.note(f"note: {note}")
    return set(notes)


def emit(report: Report, *, unchanged: bool = True, printed: Collection[str] = ()) -> None:
    """Print what became of each policy, also of those that are `unchanged`, and the problems that
    were not `printed` before.
    """
    rows = [
        {
            "cluster": report.host,
            "kind": outcome.kind,
            "namespace": outcome.namespace,
            "name": outcome.name,
            "action": outcome.action,
        }
        for outcome in report.outcomes
        if unchanged or outcome.action != "unchanged"
    ]
    if rows or unchanged:
        out.emit(rows, "table", out.rows(None, _COLUMNS, rows))
    for problem in report.problems:
        if problem not in printed:
            out.error(problem)

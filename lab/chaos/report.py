"""Summarises a run of chaos as plain data that prints as JSON."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from lab.chaos.changes import Change
from lab.chaos.faults import Broke
from lab.chaos.invariants import Attempt, Verdict

SHOWN = 20
"""The most violations of one invariant that are named."""
_FAILED = ("refused", "webhook failed", "API server")


def summary(
    attempts: Sequence[Attempt],
    broke: Sequence[Broke],
    changes: Sequence[Change],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """{creates, refused, errors, changes, faults, recovery, invariants}; see the functions
    below, times in seconds.
    """
    return {
        "creates": creates(attempts),
        "refused": _grouped(attempt for attempt in attempts if attempt.outcome == "refused"),
        "errors": _grouped(
            attempt for attempt in attempts if attempt.outcome in ("webhook failed", "API server")
        ),
        "changes": _changes(changes),
        **faults(attempts, broke),
        "invariants": [
            {
                "invariant": verdict.name,
                "holds": verdict.holds,
                "checked": verdict.checked,
                "violations": len(verdict.violations),
                "named": list(verdict.violations[:SHOWN]),
            }
            for verdict in verdicts
        ],
    }


def creates(attempts: Sequence[Attempt]) -> dict[str, int]:
    """The number of creates by outcome. `placed` are pods of mapped namespaces."""
    pods = [attempt for attempt in attempts if attempt.is_pod]
    created = [attempt for attempt in pods if attempt.outcome in ("created", "there already")]
    return {
        "tried": len(attempts),
        "placed": sum(attempt.pool is not None for attempt in created),
        "left alone": sum(attempt.pool is None for attempt in created),
        "namespaces": sum(
            attempt.outcome == "created" and attempt.pod == "(namespace)" for attempt in attempts
        ),
        "first pods": sum(attempt.wish == "first" for attempt in created),
        "refused": sum(attempt.outcome == "refused" for attempt in pods),
        "failed": sum(attempt.outcome in ("webhook failed", "API server") for attempt in attempts),
    }


def faults(attempts: Sequence[Attempt], broke: Sequence[Broke]) -> dict[str, Any]:
    """`faults`: {fault, times, survived, p50, p95, longest, settled} for each kind; `recovery`: the
    same times over all kinds.

    The recovery from a fault lasts from its end (or that of the last fault of its episode) until a
    pod of a mapped namespace is placed. `settled` is the longest time until the last failed pod. If
    no pod was placed after a fault, the cluster did not survive it.
    """
    judged = sorted(
        (
            attempt
            for attempt in attempts
            if attempt.is_pod and attempt.pool is not None and attempt.good
        ),
        key=_ended,
    )
    times: dict[str, list[float]] = {}
    settled: dict[str, float] = {}
    counts: Counter[str] = Counter()
    ends: dict[int, float] = {}
    for fault in broke:
        ends[fault.episode] = max(ends.get(fault.episode, 0.0), fault.ended)
    following = {
        episode: min((o.began for o in broke if o.began > end), default=float("inf"))
        for episode, end in ends.items()
    }
    for fault in broke:
        counts[fault.kind] += 1
        end, after = ends[fault.episode], following[fault.episode]
        placed = next(
            (a for a in judged if a.status == 201 and a.ended >= end and a.began >= fault.began),
            None,
        )
        if placed:
            times.setdefault(fault.kind, []).append(placed.ended - end)
        lost = [
            a.ended for a in judged if a.outcome in _FAILED and end <= a.ended and a.began < after
        ]
        settled[fault.kind] = max(settled.get(fault.kind, 0.0), max(lost, default=end) - end)
    every = [time for seconds in times.values() for time in seconds]
    rows = [
        {
            "fault": kind,
            "times": counts[kind],
            "survived": len(times.get(kind, ())),
            "p50": percentile(times.get(kind, ()), 50),
            "p95": percentile(times.get(kind, ()), 95),
            "longest": percentile(times.get(kind, ()), 100),
            "settled": round(settled[kind], 3),
        }
        for kind in sorted(counts)
    ]
    together = {
        "p50": percentile(every, 50),
        "p95": percentile(every, 95),
        "longest": percentile(every, 100),
        "settled": round(max(settled.values(), default=0.0), 3),
    }
    return {"faults": rows, "recovery": together}


def percentile(values: Iterable[float], percent: float) -> float | None:
    """The percentile of `values` by the nearest rank; None if there are no values."""
    ordered = sorted(values)
    return (
        round(ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1], 3) if ordered else None
    )


def plain(reason: str) -> str:
    """A reason without its variable parts (names, numbers, addresses), so that equal ones are
    grouped.
    """
    text = re.sub(r'(?<=webhook )"([^"]*)"', r"\1", reason)
    text = re.sub(r"\b(0x)?[0-9a-f]{7,}\b|\d+", "N", re.sub(r'\\?"[^"]*"', '"…"', text))
    return text if len(text) <= 160 else f"{text[:159]}…"


def _ended(attempt: Attempt) -> float:
    return attempt.ended


def _grouped(attempts: Iterable[Attempt]) -> list[dict[str, Any]]:
    """{count, mapped, unmapped, why} for each kind of reason, the most frequent first."""
    groups: dict[str, Counter[bool]] = {}
    for attempt in attempts:
        groups.setdefault(plain(attempt.reason), Counter())[attempt.pool is not None] += 1
    rows = [
        {"count": n.total(), "mapped": n[True], "unmapped": n[False], "why": why}
        for why, n in groups.items()
    ]
    return sorted(rows, key=lambda row: (-int(str(row["count"])), str(row["why"])))


def _changes(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """{change, done, failed, p50, p95, why} for each kind. The times are the seconds of successful
    changes.
    """
    rows = []
    for kind in sorted({change.kind for change in changes}):
        ours = [change for change in changes if change.kind == kind]
        durations = [change.ended - change.began for change in ours if change.error is None]
        why = Counter(plain(change.error) for change in ours if change.error is not None)
        rows.append(
            {
                "change": kind,
                "done": len(durations),
                "failed": len(ours) - len(durations),
                "p50": percentile(durations, 50),
                "p95": percentile(durations, 95),
                "why": [f"{count} x {text}" for text, count in why.most_common(5)] or None,
            }
        )
    return rows

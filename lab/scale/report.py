"""Summarises a run as plain data: bench/scale.json."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from lab.chaos import report
from lab.scale.run import Run
from lab.scale.samples import milliseconds

Row = dict[str, Any]


def summary(run: Run) -> Row:
    """`asked`: how many of each; `placement`: how many pods are wrong, by what is wrong (see
    lab.scale.pools); `failed`: attempts to create a pod that failed and were made
    again, by reason; `milliseconds`: of the creations; `waited`: the seconds from the first attempt
    to create a pod until it was created, where an attempt failed; `started`: the seconds from the
    creation of a pod until it runs; `peak`: the most MiB of each server; `processor`, `marks`: see
    lab.scale.run.Run.
    """
    pods = [attempt for attempt in run.attempts if attempt.is_pod]
    made = [attempt for attempt in pods if attempt.outcome == "created"]
    lost = [a for a in pods if a.outcome not in ("created", "there already")]
    ended = {(attempt.namespace, attempt.pod): attempt.ended for attempt in made}
    first: dict[tuple[str, str], float] = {}
    for attempt in lost:
        first.setdefault((attempt.namespace, attempt.pod), attempt.began)
    return {
        "asked": {
            "namespaces": len(run.plan.pools),
            "nodes": sum(run.plan.nodes.values()),
            "pods": len(run.plan.pods),
            "pools": run.plan.nodes,
        },
        "placement": {what: len(names) for what, names in run.wrong.items()},
        "failed": {
            "attempts": len(lost),
            "pods": len(first),
            "why": dict(Counter(report.plain(a.reason) for a in lost).most_common()),
        },
        "milliseconds": _percentiles([milliseconds(attempt) for attempt in made]),
        "waited": _percentiles([ended[pod] - at for pod, at in first.items() if pod in ended]),
        "started": _percentiles(
            [max(0.0, run.running[pod] - at) for pod, at in ended.items() if pod in run.running]
        ),
        "peak": {name: max(values) for name, values in run.series["memory"].items()},
        "processor": dict(run.processor),
        "marks": dict(run.marks),
    }


def text(document: Row) -> str:
    """The document as JSON, with a line for each part of the summary, and for each list."""
    parts = []
    for name, part in document.items():
        lines = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items()
        )
        parts.append(f" {json.dumps(name)}: {{\n{lines}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _percentiles(values: list[float]) -> Row:
    return {
        name: report.percentile(values, percent)
        for name, percent in (("p50", 50), ("p99", 99), ("most", 100))
    }


def servers(summary: Row) -> list[Row]:
    """A line for each server of a summary: its peak in MiB, and its processor time in seconds."""
    return [
        {"server": name, "peak": peak, "processor": summary["processor"].get(name)}
        for name, peak in summary["peak"].items()
    ]

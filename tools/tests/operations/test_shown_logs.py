"""`fairlead logs`: a decision in a log is a short line; equal decisions in a row are one row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead.cli.operations import logs
from fairlead.opa import decision_entries
from fairlead.operations import decision_logs


def entry(second: int, message: str = "no,\nbecause") -> dict[str, Any]:
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": "shop",
        "object": {"metadata": {"generateName": "web-"}},
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
    }
    return {
        "decision_id": f"{second}",
        "timestamp": f"2026-11-27T03:41:{second:02}Z",
        "input": {"request": request},
        "result": {"response": {"allowed": False, "status": {"message": message}}},
    }


SHORT = (
    "2026-11-27T03:41:07Z  kube-system:replicaset-controller  CREATE of Pod shop/web-*  refused  "
    "no, because"
)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_decision_in_a_log_is_a_short_line(size: int) -> None:
    line = json.dumps(entry(7))
    log = f'INFO loaded\n{line}\nopa-1 {line}\n\n{{"level": "info"}}\n{line[:90]}'
    pieces = [log[start : start + size] for start in range(0, len(log), size)]
    assert "".join(decision_logs.short(pieces)) == (
        f'INFO loaded\n{SHORT}\nopa-1 {SHORT}\n\n{{"level": "info"}}\n{line[:90]}'
    )


def test_equal_decisions_in_a_row_are_one_row() -> None:
    messages = ["no", "no", "no", "never", "no"]
    summaries = [
        decision_entries.summary(entry(second, message)) for second, message in enumerate(messages)
    ]
    rows = [(row["time"], row["reason"]) for row in logs._joined(summaries)]
    assert rows == [
        ("2026-11-27T03:41:00Z", "no (3 times, until 2026-11-27T03:41:02Z)"),
        ("2026-11-27T03:41:03Z", "never"),
        ("2026-11-27T03:41:04Z", "no"),
    ]

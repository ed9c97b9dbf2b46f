"""What OPAs decided by the Policies, as their sidecars count it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.clusters.base import Server
from fairlead.common.errors import FairleadError
from fairlead.operations import deployed_state

Reports = Sequence[Mapping[str, Any]]


def reports(sidecars: Iterable[Server], token: str) -> Reports:
    """What each sidecar counts; see fairlead.sync.decision_uploads. One that does not answer, and
    one of a former version, is left out.
    """
    answers = []
    for sidecar in sidecars:
        try:
            answer = deployed_state.fetched(sidecar, "/decisions", token)
        except FairleadError:
            continue
        if all(isinstance(entry, dict) for entry in answer.values()):  # and no error
            answers.append(answer)
    return answers


def patch(
    before: Mapping[str, Any], intents: Iterable[str], reports: Reports
) -> dict[str, Any] | None:
    """The status of a Policy with these intents, as a patch of the one before; None if it stays.
    `decisions` has the number of each outcome since the sidecars started, and `lastDecision` the
    last one.
    """
    names = set(intents)
    entries = [entry for report in reports for name, entry in report.items() if name in names]
    if not entries:
        return None
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update(entry["counts"])
    last = max((entry["last"] for entry in entries), key=lambda decision: str(decision["time"]))
    status = {"decisions": dict(counts), "lastDecision": last}
    if all(before.get(key) == value for key, value in status.items()):
        return None
    return {key: {**dict.fromkeys(before.get(key) or ()), **v} for key, v in status.items()}

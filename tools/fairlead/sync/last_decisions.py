"""Keeps what each PlacementPolicy decided last, for its status. Each status changes only now and
then: an API server cannot take a write for each decision.

A logged decision shows when, about what, and with which outcome (see tools/plugin/shown.go).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

from fairlead.common import texts
from fairlead.opa import decision_entries
from fairlead.sync.config_maps import Owner, Verdict
from fairlead.sync.stores import canonical

PERIOD = 60.0
"""Seconds that pass at the least between two changes of what one policy decided last."""

_ADMISSION = ("system/main", "signed_bundle/main")
"""What OPA is asked at admission; the second, if it follows signed bundles."""
_SHOWN = ("kind", "namespace", "name")
_LONGEST = 300  # characters; logs show 256 of each

Package = tuple[str, ...]


class LastDecisions:
    """The last decision of each policy. Safe for threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._packages: frozenset[Package] = frozenset()
        self._latest: dict[Package, str] = {}
        self._published: dict[Package, tuple[str, float]] = {}

    def note(self, entry: Mapping[str, Any]) -> bool:
        """Keep a decision that is not about admission; False for one about admission."""
        path = entry.get("path", _ADMISSION[0])
        if path in _ADMISSION:
            return False
        parts = tuple(str(path).split("/"))
        with self._lock:
            for length in range(len(parts), 0, -1):
                if parts[:length] in self._packages:
                    self._latest[parts[:length]] = canonical(_decision(entry))
                    break
        return True

    def added(self, verdicts: Mapping[Owner, Verdict]) -> dict[Owner, Verdict]:
        """The verdicts with the last decision of each policy: that of at most PERIOD ago, if there
        are many.
        """
        packages = {entry.claim.path for entry in verdicts.values() if entry.claim.path}
        now = self._clock()
        with self._lock:
            self._packages = frozenset(packages)
            self._latest = {key: last for key, last in self._latest.items() if key in packages}
            published = {key: last for key, last in self._published.items() if key in packages}
            for package, decision in self._latest.items():
                _, at = published.get(package, ("", float("-inf")))
                if now - at >= PERIOD:
                    published[package] = (decision, now)
            self._published = published
        return {
            owner: replace(verdict, decided=published[verdict.claim.path][0])
            if verdict.claim.path in published
            else verdict
            for owner, verdict in verdicts.items()
        }


def _decision(entry: Mapping[str, Any]) -> dict[str, str]:
    """What the status shows of a decision: {time, outcome, path, kind, namespace, name}, without
    what is not known.
    """
    subject = decision_entries.mapping(entry.get("input"))
    outcome = str(entry["result"]) if "result" in entry else "undefined"
    summary = {"outcome": outcome, "path": str(entry.get("path"))}
    summary |= {key: str(subject[key]) for key in _SHOWN if subject.get(key)}
    return {
        "time": texts.time(decision_entries.time(entry)),
        **{key: value[:_LONGEST] for key, value in summary.items()},
    }

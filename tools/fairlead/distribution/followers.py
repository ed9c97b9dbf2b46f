"""What OPAs report of their bundles: which revision each has, and what went wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from fairlead.distribution.configuration import WAIT
from fairlead.distribution.store import Served

AWAY = 4 * WAIT
"""Seconds after its last report after which an OPA counts as gone. A running one reports after each
request for a bundle."""
MOST = 10_000
"""The most OPAs that are remembered. An OPA has a new id after each start."""
_LONGEST = 500  # characters of a message or a label
_LABELS, _BUNDLES = 32, 16
"""The most of each that are kept of a report."""


@dataclass(frozen=True)
class Report:
    """The last report of an OPA: when it came, its labels, and its bundles by name."""

    at: float
    labels: Mapping[str, str]
    bundles: Mapping[str, Mapping[str, Any]]


class Followers:
    """The last report of each OPA, for one thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._reports: dict[str, Report] = {}

    def note(self, status: Any) -> None:
        """Take the report of an OPA. Raises ValueError for anything else.

        Source: Open Policy Agent documentation, "Status".
        """
        labels = status.get("labels") if isinstance(status, dict) else None
        if not isinstance(labels, dict) or not isinstance(labels.get("id"), str):
            raise ValueError("the report has no labels with an id")
        bundles = {} if status.get("bundles") is None else status["bundles"]
        if not isinstance(bundles, dict):
            raise ValueError("the report's bundles are no object")
        identity = labels["id"][:100]
        if identity not in self._reports and len(self._reports) >= MOST:
            self._forget()
            if len(self._reports) >= MOST:
                raise ValueError(f"{MOST} other OPAs have reported")
        self._reports[identity] = Report(
            self._clock(),
            {
                str(key)[:100]: str(value)[:_LONGEST]
                for key, value in islice(labels.items(), _LABELS)
            },
            {
                str(name)[:100]: _shown(bundle)
                for name, bundle in islice(bundles.items(), _BUNDLES)
                if isinstance(bundle, dict)
            },
        )

    def summary(self, served: Mapping[str, Served | None]) -> dict[str, Any]:
        """The bundles that are served, and how many OPAs have which revision; and each OPA."""
        self._forget()
        names = sorted(
            {*served, *(name for each in self._reports.values() for name in each.bundles)}
        )
        return {
            "bundles": [self._of_bundle(name, served.get(name)) for name in names],
            "opas": [
                {"id": identity, "labels": report.labels, "bundles": report.bundles}
                for identity, report in sorted(self._reports.items())
            ],
        }

    def _of_bundle(self, name: str, served: Served | None) -> dict[str, Any]:
        reports = [each.bundles[name] for each in self._reports.values() if name in each.bundles]
        archive = served.archive if served else None
        counts: dict[str, int] = {}
        for report in reports:
            counts[report["revision"]] = counts.get(report["revision"], 0) + 1
        return {
            "name": name,
            "revision": archive.revision if archive else None,
            "signed": archive.signed if archive else None,
            "expires": archive.expires if archive else None,
            "opas": len(reports),
            "onRevision": counts.get(archive.revision, 0) if archive else 0,
            "failing": sum(bool(report["error"]) for report in reports),
            "revisions": dict(sorted(counts.items())),
        }

    def _forget(self) -> None:
        """Drop the OPAs that are gone."""
        since = self._clock() - AWAY
        for identity in [key for key, report in self._reports.items() if report.at < since]:
            del self._reports[identity]


def _shown(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a bundle in a report: its active revision, empty if there is none; since when
    (ISO 8601); and the error of the last attempt, empty if it went well.
    """
    errors = [str(each.get("message", each)) for each in bundle.get("errors") or () if each]
    message = ": ".join(filter(None, [str(bundle.get("message") or ""), *errors]))
    return {
        "revision": str(bundle.get("active_revision") or "")[:100],
        "since": _instant(bundle.get("last_successful_activation")),
        "error": message[:_LONGEST],
    }


def _instant(text: Any) -> str | None:
    """A time of Go's; None for its zero time."""
    try:
        instant = datetime.fromisoformat(str(text)[:19])
    except ValueError:
        return None
    return None if instant.year < 2000 else f"{instant.isoformat()}Z"

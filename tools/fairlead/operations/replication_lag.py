"""Finds namespaces whose last change an OPA lacks, for a sidecar that does not report it
(kube-mgmt).

kube-mgmt's own health endpoint does not help: it returns 200 whatever the state of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fairlead.clusters.base import Cluster, OpaServer
from fairlead.common import waiting
from fairlead.common.errors import FairleadError

PATIENCE = 5.0
"""Seconds in which a change reaches OPA; a running kube-mgmt needs some milliseconds."""

_NAMESPACES = ("kubernetes", "namespaces")


@dataclass(frozen=True)
class Lag:
    """The names of the namespaces whose last change an OPA lacks.

    `since` is when the first of these changes was made, None if unknown: nothing says when a
    namespace was deleted.
    """

    namespaces: tuple[str, ...]
    since: datetime | None


def lag(
    cluster: Cluster, opa: OpaServer, token: str | None, *, patience: float = PATIENCE
) -> Lag | None:
    """What the OPA still lacks after `patience` seconds; None if it has everything. Raises
    FairleadError if OPA or the API server does not answer.
    """
    with closing(opa.api(token)) as api:
        before = api.versions(_NAMESPACES)
        namespaces = cluster.objects().namespaces()
        missed: dict[str, datetime | None] = {}

        def current() -> bool:
            nonlocal missed
            missed = dict(_missed(namespaces, before, api.versions(_NAMESPACES)))
            return not missed

        if not current():
            with suppress(FairleadError):  # `missed` says what is missing
                waiting.until(current, deadline=patience, what="OPA has every namespace", pause=0.2)
    if not missed:
        return None
    return Lag(tuple(sorted(missed)), min(filter(None, missed.values()), default=None))


def _missed(
    namespaces: Mapping[str, Any], before: Mapping[str, str], now: Mapping[str, str]
) -> Iterator[tuple[str, datetime | None]]:
    """The namespaces whose last change OPA lacks, and when that change was made.

    OPA had the versions `before`, then the API server had `namespaces`, and OPA has the versions
    `now`.
    """
    for name, namespace in namespaces.items():
        if _order(now.get(name, "")) < _order(namespace["metadata"]["resourceVersion"]):
            yield name, _changed(namespace["metadata"])
    for name, version in now.items():
        if name not in namespaces and before.get(name) == version:
            yield name, None


def _order(version: str) -> tuple[int, str]:
    """A sort key for resourceVersions, which are numbers of any length."""
    return len(version), version


def _changed(metadata: Mapping[str, Any]) -> datetime:
    """When an object was last changed, according to its metadata, to the second."""
    entries = [entry["time"] for entry in metadata.get("managedFields") or () if entry.get("time")]
    times = [metadata["creationTimestamp"], metadata.get("deletionTimestamp"), *entries]
    return max(datetime.fromisoformat(time) for time in times if time)

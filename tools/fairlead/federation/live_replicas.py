"""Says how many replicas of workloads the member clusters have now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from fairlead.analysis import place
from fairlead.common import files
from fairlead.common.errors import FairleadError
from fairlead.federation import readiness
from fairlead.federation.members import Member
from fairlead.federation.reached import is_ours


def of(
    workloads: Sequence[files.Document], clusters: Sequence[Member]
) -> dict[str, dict[str, int]]:
    """The replicas in each cluster of those workloads that `fairlead place` applied there, by their
    titles; 0 of a Job that has ended. A cluster that cannot be reached has none: whoever carries
    out decisions there says so.
    """
    replicas: dict[str, dict[str, int]] = {}
    for cluster in clusters:
        with suppress(FairleadError):
            objects = cluster.objects()
            for document in workloads:
                value = document.value
                metadata = value.get("metadata") or {}
                if not metadata.get("name"):
                    continue
                live = objects.get(
                    value["apiVersion"],
                    value["kind"],
                    metadata["name"],
                    place.namespace_of(metadata),
                )
                if live and is_ours(live):
                    title = place.title_of(value)
                    count = 0 if readiness.has_ended(live) else readiness.asked(live)
                    replicas.setdefault(title, {})[cluster.name] = count
    return replicas

"""Finds decisions in the logs of a cluster's servers: OPA's own, or the sidecar's, to which OPA
uploads its decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError

_ALL = 10_000_000
"""More lines than any log has."""


def decisions(cluster: Cluster, uid: str | None = None) -> list[dict[str, Any]]:
    """The decisions that the logs of all replicas still have, oldest first: those of the request
    `uid`, or all.

    Each is an entry of OPA's decision log. Raises FairleadError if there is none, or if a log
    cannot be read.
    """
    writers = ("opa", cluster.sidecar.name)
    servers = [name for name in cluster.servers() if name.rpartition("/")[2].startswith(writers)]
    texts = ("".join(cluster.logs(server, _ALL, False)) for server in servers)
    entries = [
        entry for entry in chain.from_iterable(map(_entries, texts)) if uid in (None, _uid(entry))
    ]
    if not entries:
        raise FairleadError(
            f"no decision{f' {uid}' if uid else ''} in the logs of "
            f"{', '.join(servers) or 'any server'}: it may come "
            "within some seconds, be gone with an older log, or decisionLogs.console is off"
        )
    return sorted(entries, key=lambda entry: str(entry.get("timestamp")))


def _entries(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{") and '"decision_id"' in line:
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut off where the log was rotated
            yield entry


def _uid(entry: dict[str, Any]) -> Any:
    request = (entry.get("input") or {}).get("request")
    return request.get("uid") if isinstance(request, dict) else None

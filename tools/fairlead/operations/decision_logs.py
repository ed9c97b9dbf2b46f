"""Finds decisions in the logs of a cluster's servers: OPA's own, or the sidecar's, to which OPA
uploads its decisions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from fairlead.clusters import joined_logs
from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.names import OPA_ENGINE
from fairlead.opa import decision_entries

_ALL = 10_000_000
"""More lines than any log has."""

_TEMPLATE_HASH = "pod-template-hash"


@dataclass(frozen=True)
class Selection:
    """Which decisions are asked for; None and False select all.

    `name` is a shell pattern. It matches the name of the object, its generated name's prefix
    (`web-*`), the name of an owner, and the name of the Deployment that a pod belongs to.
    """

    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    denied: bool = False
    since: timedelta | None = None

    def __str__(self) -> str:
        parts = (
            f" {self.uid}" if self.uid else "",
            f" about {self.name}" if self.name else "",
            f" in namespace {self.namespace}" if self.namespace else "",
            " that refuses a request" if self.denied else "",
        )
        return "".join(parts)


def decisions(cluster: Cluster, selection: Selection) -> list[dict[str, Any]]:
    """The selected decisions that the logs of all replicas still have, oldest first.

    Each is an entry of OPA's decision log. Raises FairleadError if there is none, or if a log
    cannot be read.
    """
    servers = _writers(cluster)
    entries = [entry for entry in _logged(cluster, servers) if _selected(entry, selection)]
    if not entries:
        raise FairleadError(
            f"found no decision{selection} in the logs of {', '.join(servers) or 'any server'}. "
            "A new decision is logged after a few seconds: run the command again. Old logs may "
            "have been rotated. With `decisionLogs.console: false`, no decision is logged there"
        )
    return entries


def followed(cluster: Cluster, selection: Selection, lines: int) -> Iterator[dict[str, Any]]:
    """The last `lines` selected decisions, then each further one as it is logged, without end.

    Raises FairleadError if a log cannot be read.
    """
    servers = _writers(cluster)
    logged = _logged(cluster, servers)
    entries = [entry for entry in logged if _selected(entry, selection)]
    yield from entries[-lines:] if lines else []
    # The logs are followed from their beginning, so that no decision is lost in between.
    ids = {entry.get("decision_id") for entry in logged}
    pieces = joined_logs.merged(
        servers, lambda server: cluster.logs(server, _ALL, True), follow=True
    )
    for entry in _entries(pieces):
        if entry.get("decision_id") not in ids and _selected(entry, selection):
            yield entry


def short(pieces: Iterable[str]) -> Iterator[str]:
    """The text of a log, in whole lines, with a short line for each decision: an entry of OPA's
    decision log has 1,400 characters.
    """
    unfinished = ""
    for piece in pieces:
        *lines, unfinished = (unfinished + piece).split("\n")
        yield from (f"{_short(line)}\n" for line in lines)
    if unfinished:
        yield _short(unfinished)


def _short(line: str) -> str:
    entry = _entry(line)
    if entry is None:
        return line
    server = line[: line.find("{")]
    summary = decision_entries.summary(entry)
    parts = (" ".join(part.split()) for part in summary.values() if part)
    return f"{server}{'  '.join(parts)}"


def _writers(cluster: Cluster) -> list[str]:
    """The servers whose logs have decisions. Raises UsageError if none logs any."""
    if cluster.sidecar.engine != OPA_ENGINE:
        raise UsageError(
            f"OPA logs decisions, and {cluster.sidecar.engine} enforces the policies: see the "
            "audit logs of the API servers, which have the reason of each refusal"
        )
    kinds = ("opa", cluster.sidecar.name)
    return [name for name in cluster.servers() if name.rpartition("/")[2].startswith(kinds)]


def _logged(cluster: Cluster, servers: Sequence[str]) -> list[dict[str, Any]]:
    """The decisions in the logs of these servers, oldest first."""
    entries = chain.from_iterable(_entries(cluster.logs(name, _ALL, False)) for name in servers)
    return sorted(entries, key=decision_entries.time)


def _entries(pieces: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The decisions in a log. Lines may begin with the name of their server."""
    unfinished = ""
    for piece in pieces:
        *lines, unfinished = (unfinished + piece).split("\n")
        yield from filter(None, map(_entry, lines))
    if (entry := _entry(unfinished)) is not None:
        yield entry


def _entry(line: str) -> dict[str, Any] | None:
    begin = line.find("{")
    if begin < 0 or '"decision_id"' not in line:
        return None
    try:
        entry = json.loads(line[begin:])
    except (ValueError, RecursionError):
        return None  # cut off where the log was rotated
    return entry if isinstance(entry, dict) else None


def _selected(entry: Mapping[str, Any], selection: Selection) -> bool:
    request = decision_entries.request(entry)
    return (
        selection.uid in (None, request.get("uid"))
        and selection.namespace in (None, request.get("namespace"))
        and (selection.name is None or any(_matches(request, selection.name)))
        and (not selection.denied or decision_entries.verdict(entry) in decision_entries.REFUSALS)
        and (
            selection.since is None
            or decision_entries.time(entry) >= datetime.now(UTC) - selection.since
        )
    )


def _matches(request: Mapping[str, Any], pattern: str) -> Iterator[bool]:
    """Whether each name by which the object may be looked for matches."""
    for name in (request.get("name"), *_names(request)):
        yield isinstance(name, str) and fnmatchcase(name, pattern)


def _names(request: Mapping[str, Any]) -> Iterator[Any]:
    resource = decision_entries.mapping(request.get("object") or request.get("oldObject"))
    metadata = decision_entries.mapping(resource.get("metadata"))
    yield metadata.get("name")
    yield metadata.get("generateName")
    template_hash = decision_entries.mapping(metadata.get("labels")).get(_TEMPLATE_HASH)
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        name = decision_entries.mapping(owner).get("name")
        yield name
        if isinstance(name, str) and isinstance(template_hash, str):
            yield name.removesuffix(f"-{template_hash}")

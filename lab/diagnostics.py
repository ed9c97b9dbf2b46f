"""Collects state, events, objects and logs of a cluster in one folder, after a failed integration
test."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.operations.status import status

_LINES = 100_000  # from the end of each log
# The objects that explain a failure. Secrets are not among them.
_KINDS = (
    ("v1", "Node"),
    ("v1", "Namespace"),
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
)


def collect(cluster: Cluster, folder: Path) -> list[Path]:
    """Write the cluster's state, its events, its objects and every server's log into `folder`;
    returns the files' names.

    It is called when something is broken already: what cannot be collected is left out, and
    errors.txt says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    errors: list[str] = []

    def keep(name: str, lines: Callable[[], Iterable[str]]) -> None:
        try:
            text = "".join(lines())
        except FairleadError as error:
            errors.append(f"{name}: {error}")
            return
        path = folder / name.replace("/", "_")
        path.write_text(text, encoding="utf-8")
        paths.append(path)

    keep("status.json", lambda: _json(status(cluster)))
    keep("events.json", lambda: _listed(cluster, "v1", "Event"))
    for version, kind in _KINDS:
        keep(f"{kind}.json", functools.partial(_listed, cluster, version, kind))
    keep(
        f"{POLICIES}.json",
        lambda: _json(cluster.objects().get("v1", "ConfigMap", POLICIES, NAMESPACE)),
    )
    try:
        servers = list(cluster.servers())
    except FairleadError as error:
        errors.append(f"servers: {error}")
        servers = []
    for server in servers:
        keep(f"{server}.log", functools.partial(cluster.logs, server, _LINES, False))
    if errors:
        keep("errors.txt", lambda: "\n".join(errors) + "\n")
    return paths


def _listed(cluster: Cluster, version: str, kind: str) -> str:
    return _json(cluster.objects().list(version, kind, None))


def _json(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"

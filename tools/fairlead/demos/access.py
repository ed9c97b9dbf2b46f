"""The demo of transient access: what a subject may do at each second before, during and after a
grant."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead.access import instants, requests
from fairlead.access.requests import Request
from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.kube import clients

SUBJECT = "alice"
NAMESPACE, ROLE, NAME = "shop", "reader", "demo"
BEGIN, LENGTH = timedelta(seconds=5), timedelta(seconds=20)
AFTERWARDS = 4
"""Seconds that are shown after the end."""

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
_WORLD = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": _RULES,
    },
)


def run(cluster: Cluster, *, progress: Progress) -> list[dict[str, Any]]:
    """Grant a role for 20 s that begin 5 s from now, and try to use it in the name of its subject
    at each second: {second, allowed, why, left}. `second` counts from the beginning of the window.

    Raises FairleadError if the guards are not in force within a minute.
    """
    objects = cluster.objects()
    subject = clients.Objects(cluster.kubeconfig, user=SUBJECT, timeout=10.0)
    for manifest in _WORLD:
        objects.apply(manifest)
    progress.update("demo", "asking for access")
    begin = datetime.now(UTC) + BEGIN
    request = Request(
        (NAMESPACE, NAME),
        ("ClusterRole", ROLE),
        [{"kind": "User", "name": SUBJECT}],
        begin,
        LENGTH,
        "a demo of 20 s",
        needs_approval=False,
    )
    granted = waiting.until(
        lambda: requests.grant(objects, request), deadline=60.0, what="access is granted"
    )
    start = instants.nanoseconds(granted["validFrom"]) / instants.SECOND
    rows = []
    first = int(time.time() - start)
    for second in range(first, int(LENGTH.total_seconds()) + AFTERWARDS + 1):
        # A tenth later, so that a request at either end tells what holds from then on.
        time.sleep(max(0.0, start + second + 0.1 - time.time()))
        answer = subject.request("GET", _PODS)
        (line,) = requests.listed(objects, NAMESPACE)
        progress.update("demo", f"second {second}: {SUBJECT} gets {answer.status}")
        rows.append(
            {
                "second": second,
                "allowed": answer.status == 200,
                "why": line["why"],
                "left": line["left"],
            }
        )
    progress.finish("demo", "the window is over")
    return rows


def check(rows: list[dict[str, Any]]) -> None:
    """Raises FairleadError if the subject had access before or after the window, or none in it. A
    second at either end of it proves nothing.
    """
    length = LENGTH.total_seconds()
    outside = [
        row["second"] for row in rows if row["allowed"] and not -1 < row["second"] < length + 1
    ]
    inside = [row for row in rows if row["allowed"] and 0 <= row["second"] < length]
    if outside or not inside:
        raise FairleadError(
            f"{SUBJECT} had access at the seconds {outside}"
            if outside
            else f"{SUBJECT} never had access"
        )

"""Simulated nodes: the requested number in each pool, labelled and Ready."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError, UsageError
from fairlead.kube.clients import Objects

Taint = Mapping[str, str]


def manifests(
    pools: Mapping[str, int],
    *,
    node_label: str,
    labels: Mapping[str, Mapping[str, str]],
    taints: Mapping[str, Sequence[Taint]],
) -> list[dict[str, Any]]:
    """A manifest for each node, <pool>-0 and so on, with the additional `labels` and `taints` of
    its pool.

    Raises UsageError if nodes of two pools would have the same name.
    """
    nodes: dict[str, dict[str, Any]] = {}
    for pool, count in pools.items():
        # A label's value may have characters that a node's name may not.
        prefix = re.sub(r"[^a-z0-9.-]", "-", pool.lower())
        for index in range(count):
            name = f"{prefix}-{index}"
            if name in nodes:
                raise UsageError(
                    f"two pools would have a node {name!r}: give one of them another name"
                )
            all_labels = {
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name[-63:].lstrip(".-"),
                node_label: pool,
                **labels.get(pool, {}),
            }
            spec = {"taints": [dict(taint) for taint in taints[pool]]} if taints.get(pool) else {}
            nodes[name] = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": all_labels},
                "spec": spec,
            }
    return list(nodes.values())


def add(objects: Objects, manifests: Sequence[dict[str, Any]], deadline: float) -> None:
    """Create the nodes of `manifests` and wait until pods can be scheduled onto each. Safe to
    repeat.

    Raises FairleadError that names the nodes that are not ready within `deadline` seconds.
    """
    for node in manifests:
        objects.apply(node)
    names = {node["metadata"]["name"] for node in manifests}

    def are_ready() -> bool:
        ready = {n["metadata"]["name"] for n in objects.list("v1", "Node", None) if _ready(n)}
        if missing := sorted(names - ready):
            raise FairleadError(
                f"{', '.join(missing)}; see the logs of kwok and kube-controller-manager"
            )
        return True

    if names:
        waiting.until(are_ready, deadline=deadline, what="every node is ready")


def _ready(node: dict[str, Any]) -> bool:
    """Whether a node is Ready, and without the taint that it has until the controller manager
    notices that.
    """
    if any(
        taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", [])
    ):
        return False
    conditions = node.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )

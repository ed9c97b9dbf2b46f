"""Checks where pods run, as the API server lists them in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.chaos import invariants
from lab.scale.plan import SETTINGS, Name

UNPLACED, WRONG_NODE, NOT_RUNNING, MISSING = "unplaced", "wrongNode", "notRunning", "missing"
WORDS = {
    UNPLACED: "lack the assignment of their pool",
    WRONG_NODE: "are on a node of another pool",
    NOT_RUNNING: "do not run",
    MISSING: "were not created",
}
Misplaced = dict[str, list[str]]
"""The pods, as `namespace/name`, by what is wrong with them: a key of WORDS."""


def misplaced(
    pods: Iterable[Mapping[str, Any]],
    pool_of: Mapping[Name, str],
    pool_of_node: Mapping[str, str | None],
) -> Misplaced:
    """What is wrong with the pods that were asked for. A pod can be wrong in several ways. Pods
    that nobody asked for are left out.
    """
    wrong: Misplaced = {what: [] for what in WORDS}
    seen = set()
    for pod in pods:
        name = (pod["metadata"]["namespace"], pod["metadata"]["name"])
        if name not in pool_of:
            continue
        seen.add(name)
        node = pod["spec"].get("nodeName")
        if invariants.wrong(pod, pool_of[name], None, SETTINGS):
            wrong[UNPLACED].append("/".join(name))
        if node and pool_of_node.get(node) != pool_of[name]:
            wrong[WRONG_NODE].append("/".join(name))
        if not node or pod["status"].get("phase") != "Running":
            wrong[NOT_RUNNING].append("/".join(name))
    wrong[MISSING] += ["/".join(name) for name in pool_of if name not in seen]
    return {what: sorted(names) for what, names in wrong.items()}


def complaint(wrong: Misplaced, count: int) -> str | None:
    """What is wrong with how many of the `count` pods, with an example of each; None if nothing
    is.
    """
    parts = [
        f"{len(names)} {WORDS[what]} (such as {names[0]})" for what, names in wrong.items() if names
    ]
    return f"of {count} pods, {', '.join(parts)}" if parts else None

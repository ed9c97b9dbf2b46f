"""Groups findings about many objects into a table that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = 3
"""How many objects of a group are named."""


def lines(findings: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """One line for all objects of a namespace that are told the same: {*keys, namespace, objects,
    message}.

    Each of `found` has namespace, kind, name, maybe a node, and a message, which may name the
    object and its node.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for finding in findings:
        message = (
            finding["message"]
            .replace(finding["name"], "")
            .replace(finding.get("node") or finding["name"], "")
        )
        groups.setdefault(
            (finding["namespace"], *(finding[key] for key in keys), message), []
        ).append(finding)
    return [{**group[0], "objects": _named(group)} for group in groups.values()]


def counts(of: Mapping[str, int], what: str) -> str:
    """How many there are, and how many of each word, as `12 pods: 10 placed, 2 not mapped`."""
    details = ", ".join(f"{count} {word}" for word, count in of.items() if count)
    return f"{sum(of.values())} {what}{f': {details}' if details else ''}"


def _named(group: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{finding['kind']} {finding['name']}" for finding in group[:_NAMED]]
    return ", ".join(names) + (f" and {len(group) - _NAMED} more" if len(group) > _NAMED else "")

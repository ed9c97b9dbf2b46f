"""What is found of many objects, in a table that people can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMED = 3
"""How many objects of a group are named."""


def lines(found: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """One line for all objects of a namespace that are told the same: {*keys, namespace, objects, message}.

    Each of `found` has namespace, kind, name, maybe a node, and a message, which may name the object and its node.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in found:
        told = one["message"].replace(one["name"], "").replace(one.get("node") or one["name"], "")
        groups.setdefault((one["namespace"], *(one[key] for key in keys), told), []).append(one)
    return [{**group[0], "objects": _named(group)} for group in groups.values()]


def counts(of: Mapping[str, int], what: str) -> str:
    """How many there are, and how many of each word, as `12 pods: 10 placed, 2 not mapped`."""
    told = ", ".join(f"{count} {word}" for word, count in of.items() if count)
    return f"{sum(of.values())} {what}{f': {told}' if told else ''}"


def _named(group: Sequence[Mapping[str, Any]]) -> str:
    named = [f"{one['kind']} {one['name']}" for one in group[:_NAMED]]
    return ", ".join(named) + (f" and {len(group) - _NAMED} more" if len(group) > _NAMED else "")

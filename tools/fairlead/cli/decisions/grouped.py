"""Groups findings with the same message, for short tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common import texts

_NAMED = 3
"""The number of objects that are named in each group."""


def lines(findings: Sequence[Mapping[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """One line for all objects of a namespace with the same message: {*keys, namespace, objects,
    message}.

    Each finding has a namespace, kind, name, possibly a node, and a message. Messages count as the
    same if they differ only in the names of the object and its node.
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


def counts(of: Mapping[str, int], noun: str, place: str = "") -> str:
    """The sum and the single counts as text, such as `12 pods: 10 placed, 2 not mapped` for the
    noun `pod`. `place` follows the noun, such as ` in 3 files`.
    """
    details = ", ".join(f"{count} {word}" for word, count in of.items() if count)
    return f"{texts.counted(sum(of.values()), noun)}{place}{f': {details}' if details else ''}"


def _named(group: Sequence[Mapping[str, Any]]) -> str:
    names = [f"{finding['kind']} {finding['name']}" for finding in group[:_NAMED]]
    return ", ".join(names) + (f" and {len(group) - _NAMED} more" if len(group) > _NAMED else "")

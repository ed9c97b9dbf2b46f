"""Compares the answers of two engines to one request: whether they allow it, the object afterwards,
and whether they warn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ALLOWED, OBJECT, WARNINGS = "allowed", "object", "warnings"
KINDS = (ALLOWED, OBJECT, WARNINGS)
"""What can differ, in the order in which it is looked at."""


@dataclass(frozen=True)
class Answer:
    """What is compared of a decision. `allowed` is None if there is none; `message` says why then.
    `object` is None if the request is refused, or leaves none; `warnings` are those of policies.
    """

    allowed: bool | None
    message: str = ""
    object: Any = None
    warnings: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The answer in a few words."""
        word = {True: "allowed", False: "refused", None: "undecided"}[self.allowed]
        return f"{word} ({self.message})" if self.message else word


@dataclass(frozen=True)
class Disagreement:
    """What differs (one of KINDS), and how."""

    kind: str
    why: str


def between(one: Answer, other: Answer) -> Disagreement | None:
    """What differs first, and how; None if nothing does. Of refusals, the words do not count."""
    if None in (one.allowed, other.allowed) or one.allowed != other.allowed:
        return Disagreement(ALLOWED, f"{one.words}, and {other.words}")
    if not one.allowed:
        return None
    if parts := differing(one.object, other.object):
        return Disagreement(OBJECT, parts)
    if bool(one.warnings) != bool(other.warnings):
        return Disagreement(WARNINGS, f"warnings {[*one.warnings]}, and {[*other.warnings]}")
    return None


def differing(one: Any, other: Any) -> str:
    """The parts in which two objects differ, each with the value of both; empty if in none."""
    return "; ".join(_differing(filled(one), filled(other), "object"))


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(one.keys() | other.keys()):
            yield from _differing(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        first, second = ("none" if each is None else repr(each) for each in (one, other))
        yield f"{path}: {first}, and {second}"


def filled(value: Any) -> Any:
    """The value without fields that are null or empty, which API servers leave out."""
    if isinstance(value, Mapping):
        parts = {key: filled(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, {}, [])}
    return [filled(part) for part in value] if isinstance(value, list) else value

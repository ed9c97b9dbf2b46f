"""Reads the patterns of Kyverno's validate rules as checks of fields.

Source: Kyverno's documentation, "Validate Rules": operators, anchors and wildcards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from fairlead.convert.checks import EACH, MISSING, Check, Path
from fairlead.convert.targets import Untakable

_ANCHOR = re.compile(r"([=X^<+]?)\((.*)\)")


def checks(pattern: Any, at: Path = (), *, optional: bool = False) -> Iterator[Check]:
    """What a pattern asks of the fields of an object. Raises Untakable for conditions, variables
    and lists that convert does not read.
    """
    if isinstance(pattern, dict) and pattern:
        for key, value in pattern.items():
            yield from _entry(key, value, at, optional=optional)
    elif isinstance(pattern, list):
        if len(pattern) != 1 or not isinstance(pattern[0], dict):
            raise Untakable(f"{_shown(at)} is not one pattern for all objects of a list")
        # Nothing is asked of a list that is missing or empty.
        yield from checks(pattern[0], (*at, EACH))
    elif not at:
        raise Untakable("no field is named")
    else:
        test = "*" if pattern == {} else pattern
        yield Check(at, test if isinstance(test, str) else json.dumps(test), optional)


def _entry(key: str, value: Any, at: Path, *, optional: bool) -> Iterator[Check]:
    anchor = _ANCHOR.fullmatch(key)
    if not anchor:
        yield from checks(value, (*at, key), optional=optional)
    elif anchor[1] == "=":
        yield from checks(value, (*at, anchor[2]), optional=True)
    elif anchor[1] == "X":
        yield Check((*at, anchor[2]), MISSING, optional)
    elif anchor[1] != "" or value != "*":
        raise Untakable(f"{_shown((*at, key))} is a condition on the object")


def _shown(path: Path) -> str:
    return ".".join(path).replace(f".{EACH}", "") or "the pattern"

"""Reads the numbers of JSON as Kubernetes does: 1.0 and 1e3 are integers."""

from __future__ import annotations

import sys


def number(text: str) -> int | float:
    """A number with a point or an exponent: an int if its value is whole. Fits `parse_float`."""
    value = float(text)
    return int(value) if value.is_integer() else value


def whole(text: str) -> int | str:
    """A number of digits alone, or the text itself if it is too long for Python.

    Fits `parse_int`.
    """
    return int(text) if len(text) <= sys.int_info.default_max_str_digits else text

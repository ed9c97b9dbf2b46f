"""Reads the numbers of JSON as Kubernetes means them, so that 1.0 and 1e3 are whole."""

from __future__ import annotations

import sys


def number(text: str) -> int | float:
    """The number that `text` spells with a point or an exponent: an int if it is whole. Fits
    `parse_float`.
    """
    value = float(text)
    return int(value) if value.is_integer() else value


def whole(text: str) -> int | str:
    """The number that `text` spells in digits alone; the text itself where Python reads no number
    as long.

    Fits `parse_int`.
    """
    return int(text) if len(text) <= sys.int_info.default_max_str_digits else text

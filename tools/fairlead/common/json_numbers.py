"""Reads the numbers of JSON as Kubernetes means them, so that 1.0 and 1e3 are whole."""

from __future__ import annotations


def number(text: str) -> int | float:
    """The number that `text` spells with a point or an exponent: an int if it is whole. Fits `parse_float`."""
    value = float(text)
    return int(value) if value.is_integer() else value

"""Prints rows as CSV (RFC 4180) for spreadsheets."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet evaluates a cell that begins so. Labels and annotations come from anyone who may
edit a workload (OWASP, "CSV Injection")."""


def emit(columns: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> None:
    """Print a heading and a line for each of `lines`; `columns` are their keys. Lists are joined by
    spaces, None is empty, and a text that a spreadsheet would evaluate begins with `'`.
    """
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(line[column]) for column in columns] for line in lines)


def _cell(value: Any) -> Any:
    text = " ".join(map(str, value)) if isinstance(value, list) else value
    return f"'{text}" if isinstance(text, str) and text.startswith(_FORMULA) else text

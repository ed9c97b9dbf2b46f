"""What each engine costs a request and a cluster, as bench/engines.py measured it last."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common import files, paths

Row = Mapping[str, Any]
"""{engine, requests, memoryOfEngine, memoryOfApiServer} and, for each request, {p50, p99,
timesFloor}: milliseconds, and the ratio of the median to that without policies. Memory is in
MiB."""

_MEMORY = {"memoryOfEngine": "memory of the engine", "memoryOfApiServer": "of the API server"}


def file() -> Path:
    """The file with the rows."""
    return paths.root() / "bench" / "engines.json"


def measured() -> list[Row]:
    """The rows of the last measurement. Raises InputError."""
    rows: list[Row] = json.loads(files.read_text(file()))
    return rows


def table(rows: Sequence[Row]) -> str:
    """The rows as a table in Markdown."""
    requests = [key for key, value in rows[0].items() if isinstance(value, dict)]
    lines = [
        f"| engine | {' | '.join([*requests, *_MEMORY.values()])} |",
        f"|---|{'---|' * (len(requests) + len(_MEMORY))}",
    ]
    for row in rows:
        times = [f"{row[key]['p50']} ms ({row[key]['timesFloor']}x)" for key in requests]
        memory = [f"{row[key]} MiB" for key in _MEMORY]
        lines.append(f"| {row['engine']} | {' | '.join([*times, *memory])} |")
    return "\n".join(lines)

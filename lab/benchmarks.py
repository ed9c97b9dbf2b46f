"""Measures how long OPA takes to answer a query, and how often it allocates memory for that, by
`opa bench`, with the garbage collection of a deployed OPA.

Allocations are exact, and the same on every machine. Times are not: the least one says most.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli, containers
from fairlead.programs import toolchain

_WITHIN = 300
"""Seconds within which `opa bench` must end. It measures for one second of its own time."""
_TIMER = "histogram_timer_rego_query_eval_ns_"


@dataclass(frozen=True)
class Measurement:
    """What one answer costs: the number of allocations, and the least time, the median and the
    99th percentile in nanoseconds.
    """

    allocations: int
    least: float
    p50: float
    p99: float


def measured(
    query: str, *, modules: Mapping[str, str], data: Mapping[str, Any] | str, input: Any
) -> Measurement:
    """What the answer to `query` costs an OPA that collects garbage as often as a deployed one (its
    GOGC). `data` may be the text of JSON. Raises FairleadError if OPA fails.
    """
    opa = str(toolchain.ensure(["opa"], Progress())["opa"])
    with tempfile.TemporaryDirectory(prefix="fairlead-") as name:
        folder = Path(name)
        for key, text in modules.items():
            (folder / key).write_text(text, encoding="utf-8")
        document = data if isinstance(data, str) else json.dumps(data)
        (folder / "data.json").write_text(document, encoding="utf-8")
        (folder / "input").write_text(json.dumps(input))
        command = [opa, "bench", "--format=json", f"--data={folder}", f"--input={folder / 'input'}"]
        completed = subprocess.run(
            [*command, query],
            capture_output=True,
            text=True,
            check=False,
            timeout=_WITHIN,
            env=cli.environment() | {"GOGC": containers.OPA_ENVIRONMENT["GOGC"]},
        )
    if completed.returncode:
        raise FairleadError(f"opa bench fails: {completed.stdout}{completed.stderr}")
    result = json.loads(completed.stdout)
    times = (result["Extra"][_TIMER + name] for name in ("min", "median", "99%"))
    return Measurement(result["MemAllocs"] // result["N"], *times)

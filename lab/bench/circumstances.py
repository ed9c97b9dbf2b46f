"""Says when and on what figures were measured."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any


def now() -> dict[str, Any]:
    """The time, the machine, and its load average of one minute, as {at, machine, load}."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
    }

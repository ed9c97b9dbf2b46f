"""`python -m lab verify`: `fairlead verify`, with the engines that ask a real API server."""

from __future__ import annotations

from fairlead import verification
from lab.engines import ENGINES

verification.ENGINES |= ENGINES

from fairlead.cli.decisions.verify import command  # noqa: E402 - its help names the engines

__all__ = ["command"]

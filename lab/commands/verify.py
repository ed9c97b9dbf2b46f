"""`python -m lab verify`: `fairlead verify`, with Gatekeeper and Kyverno."""

from __future__ import annotations

from fairlead import verification

verification.ENGINES |= {
    "gatekeeper": "lab.engines.gatekeeper:GatekeeperEngine",
    "kyverno": "lab.engines.kyverno:KyvernoEngine",
}

from fairlead.cli.decisions.verify import command  # noqa: E402 - its help names the engines

__all__ = ["command"]

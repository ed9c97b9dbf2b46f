"""Engines that ask a real API server, which only the laboratory starts, and what it makes of all
engines."""

ENGINES = {
    "webhook": "lab.engines.webhook:WebhookEngine",
    "cel": "lab.engines.cel:CelEngine",
    "gatekeeper": "lab.engines.gatekeeper:GatekeeperEngine",
    "kyverno": "lab.engines.kyverno:KyvernoEngine",
}
"""Engine -> its class, as module:name; see fairlead.verification."""

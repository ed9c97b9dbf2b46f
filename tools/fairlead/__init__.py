"""Places pods on their namespace's node pool, by policies that OPA evaluates at admission."""

__version__ = "0.1.0"

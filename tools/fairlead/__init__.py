"""Policy-driven placement for Kubernetes: one intent, decided by OPA at admission."""

__version__ = "0.1.0"

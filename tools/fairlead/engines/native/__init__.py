"""Engines whose policies are enforced by objects of the cluster alone, without OPA."""

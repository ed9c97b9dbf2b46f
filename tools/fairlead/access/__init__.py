"""Carries out transient role bindings: the controller in the cluster, and what people do with
them. OPA decides (policies/access); docs/access.md explains it."""

"""Decides about a cluster without changing it: what its policies would do, and what changed ones
would do otherwise."""

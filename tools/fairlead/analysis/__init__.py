"""Evaluates policies for a cluster without changing it: what they would do to its objects, and
which decisions changed policies would change."""

"""Fills one cluster with namespaces, nodes and pods, and checks where each pod runs."""

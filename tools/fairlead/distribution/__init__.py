"""Policies and data as signed OPA bundles, for OPAs of many clusters that follow one server."""

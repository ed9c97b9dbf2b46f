"""The Rego as it ships: bundles, their revisions, and how a revision is staged."""

"""Engines whose own programs only the laboratory starts, and what it makes of all engines."""

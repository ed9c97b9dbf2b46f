"""Where Fairlead's files are: the checkout, the state of clusters, and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.common.errors import UsageError


def root() -> Path:
    """The checkout's folder: FAIRLEAD_HOME, or the one this package is installed from.

    Raises UsageError if it does not hold the policies.
    """
    home = os.environ.get("FAIRLEAD_HOME")
    folder = Path(home).resolve() if home else Path(__file__).resolve().parents[3]
    if not (folder / "policies" / "main.rego").is_file():
        raise UsageError(
            f"no policies/main.rego in {folder}: set FAIRLEAD_HOME to a checkout of Fairlead"
        )
    return folder


def state(name: str) -> Path:
    """The folder for the state of the cluster `name`; it may not exist."""
    return root() / ".fairlead" / name


def cache() -> Path:
    """The user's cache, shared by checkouts (XDG base directory specification)."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # the specification says to ignore relative paths
        base = Path.home() / ".cache"
    return base / "fairlead"

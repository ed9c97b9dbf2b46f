"""Where Fairlead's files are: the checkout, the state of clusters, and the cache.

Without a checkout, as in the environment of a pre-commit hook, the installed package has a copy of
those files of its checkout that it reads (setup.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from fairlead.common.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_COPY = _PACKAGE / "checkout"


def root() -> Path:
    """The checkout's folder: FAIRLEAD_HOME, the one this package is installed from, or the copy in
    the installed package.

    Raises UsageError if it does not hold the policies.
    """
    home = os.environ.get("FAIRLEAD_HOME")
    installed = _COPY if _COPY.is_dir() else _PACKAGE.parents[1]
    folder = Path(home).resolve() if home else installed
    if not (folder / "policies" / "main.rego").is_file():
        raise UsageError(
            f"no policies/main.rego in {folder}: set FAIRLEAD_HOME to a checkout of Fairlead"
        )
    return folder


def state(name: str) -> Path:
    """The folder for the state of the cluster `name`; it may not exist. Without a checkout, it is
    in the user's state (XDG base directory specification).
    """
    if root() == _COPY:
        return _of_user("XDG_STATE_HOME", ".local/state") / name
    return root() / ".fairlead" / name


def shown(path: Path) -> str:
    """The path as messages show it: relative to the working directory if it is below."""
    cwd, absolute = Path.cwd(), path.absolute()
    return str(absolute.relative_to(cwd)) if absolute.is_relative_to(cwd) else str(path)


def cache() -> Path:
    """The user's cache, shared by checkouts (XDG base directory specification)."""
    return _of_user("XDG_CACHE_HOME", ".cache")


def _of_user(variable: str, default: str) -> Path:
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():  # the specification says to ignore relative paths
        base = Path.home() / default
    return base / "fairlead"

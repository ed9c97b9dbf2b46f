"""Checks that the packages of the extra `dev` are installed."""

from __future__ import annotations

import importlib.util

from fairlead.common.errors import UsageError


def require(what: str, *packages: str) -> None:
    """Raises UsageError if `what` needs packages of the extra `dev` that are missing."""
    missing = [name for name in packages if not _installed(name)]
    if missing:
        raise UsageError(
            f"{what} needs {', '.join(missing)}, which only developers have: `make setup` installs "
            "the extra `dev`, as requirements.txt pins it"
        )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module without a spec, such as one that a program put into sys.modules
        return False

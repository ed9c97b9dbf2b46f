"""Says what is missing where a check needs a package that only developers have."""

from __future__ import annotations

import importlib.util

from fairlead.common.errors import UsageError


def require(what: str, *packages: str) -> None:
    """Raises UsageError, which names `what` is asked for and the way out, if a package of the extra
    `dev` is missing.
    """
    missing = [name for name in packages if not _installed(name)]
    if missing:
        raise UsageError(
            f"{what} needs {', '.join(missing)}, which only developers have: `make setup` installs "
            "the extra `dev`, as requirements.txt pins it"
        )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # another program put something else there
        return False

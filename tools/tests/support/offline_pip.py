"""An environment in which pip installs this checkout without a download."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from fairlead.common import paths

_NO_SOURCES = (
    *(".git", ".venv", ".fairlead", "build", "__pycache__", "*.egg-info"),
    *(".*_cache", ".hypothesis"),
)


def environment() -> dict[str, str]:
    """This process's environment, in which pip builds with this environment's setuptools, and
    programs import this environment's packages, apart from fairlead itself.
    """
    inherited: Mapping[str, str] = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "FAIRLEAD_"))
    }
    return {
        **inherited,
        "PATH": os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"])),
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this variable the other way round
        "PYTHONPATH": sysconfig.get_path("purelib"),
    }


def copy_checkout(target: Path) -> None:
    """Copy the checkout's files as they are now, without environments, results and caches."""
    shutil.copytree(paths.root(), target, ignore=shutil.ignore_patterns(*_NO_SOURCES))

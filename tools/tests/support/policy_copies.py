"""Copies of Fairlead's policies, for tests that change them."""

from __future__ import annotations

import shutil
from pathlib import Path

from fairlead.policy import policy_files


def copied(target: Path) -> Path:
    """Copy the policies with few of their tests. A push runs all that there are, which takes
    seconds of two cores for each change; test_remote.py has such a push.
    """

    def left_out(_folder: str, names: list[str]) -> set[str]:
        return {name for name in names if name.endswith("_test.rego")} - {"health_test.rego"}

    return shutil.copytree(policy_files.builtin(), target, ignore=left_out)

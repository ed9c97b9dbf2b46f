"""Adds to the installed package what it reads from a checkout: policies, templates, and the pins of
programs. So `pip install` of a checkout, as pre-commit does it, needs the checkout no longer.

Everything else is in pyproject.toml. An editable install reads the checkout itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CHECKOUT = Path(__file__).parent
FOLDER = "checkout"
"""The folder in the package; fairlead.common.paths.root finds it."""
INCLUDED = (
    "integration/deploy",
    "integration/kind.yaml",
    "policies",
    "testdata",
    "tools/matcher",
    "tools/plugin",
    "tools/schemas",
    "tools/templates",
    "tools/toolchain",
)


class BuildWithCheckout(build_py):  # type: ignore[misc] # setuptools has no types
    """Copies the INCLUDED files and folders beside the modules."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name in INCLUDED:
            source, target = CHECKOUT / name, Path(self.build_lib, "fairlead", FOLDER, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copyfile(source, target)


setup(cmdclass={"build_py": BuildWithCheckout})

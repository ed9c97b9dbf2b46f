"""docs/architecture.md and CONTRIBUTING.md name only files and packages that exist."""

from __future__ import annotations

import re

import pytest

from fairlead.common import paths

ROOT = paths.root()
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
FOLDERS = {path.parent.name for path in (ROOT / "tools" / "fairlead").glob("*/__init__.py")}


def test_each_package_has_its_row() -> None:
    table = PAGE.partition("## Packages")[2].partition("Outside of it")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == FOLDERS


@pytest.mark.parametrize("text", [PAGE, CONTRIBUTING], ids=["architecture", "CONTRIBUTING"])
def test_each_path_is_there(text: str) -> None:
    named = re.findall(r"`((?:tools|lab|bench|policies|integration|testdata|docs)/[\w/.-]*)`", text)
    assert len(named) > 5
    assert [path for path in named if not list(ROOT.glob(f"{path.rstrip('/')}*"))] == []


def test_each_module_is_there() -> None:
    named = re.findall(r"`(\w[\w/]*/(?:\w+\.py)?)`", PAGE)
    modules = [path for path in named if path.partition("/")[0] in FOLDERS]
    assert len(modules) > 40
    assert [path for path in modules if not (ROOT / "tools" / "fairlead" / path).exists()] == []

"""docs/architecture.md and CONTRIBUTING.md name only files and packages that exist."""

from __future__ import annotations

import re

import pytest

from fairlead.common import paths

ROOT = paths.root()
PAGE = (ROOT / "docs" / "architecture.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def test_each_package_has_its_row() -> None:
    folders = {path.parent.name for path in (ROOT / "tools" / "fairlead").glob("*/__init__.py")}
    table = PAGE.partition("## Packages")[2].partition("Outside of it")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == folders


@pytest.mark.parametrize("text", [PAGE, CONTRIBUTING], ids=["architecture", "CONTRIBUTING"])
def test_each_path_is_there(text: str) -> None:
    named = re.findall(r"`((?:tools|lab|bench|policies|integration|testdata|docs)/[\w/.-]*)`", text)
    assert len(named) > 5
    assert [path for path in named if not list(ROOT.glob(f"{path.rstrip('/')}*"))] == []


def test_each_module_of_the_flows_is_there() -> None:
    flows = PAGE.partition("## Three flows")[2].partition("## I want to change")[0]
    named = re.findall(r"`(\w+/\w+\.py)`", flows)
    assert len(named) > 8
    assert [path for path in named if not (ROOT / "tools" / "fairlead" / path).exists()] == []

"""docs/security.md has a row for each threat; the tests of docs/security-tests.md exist."""

from __future__ import annotations

import re

import pytest

from fairlead.common import paths

DOCS = paths.root() / "docs"
ROWS = re.findall(r"^\| (\d+) ", (DOCS / "security.md").read_text(encoding="utf-8"), re.MULTILINE)
TESTS = (DOCS / "security-tests.md").read_text(encoding="utf-8")


def test_every_threat_and_every_mitigation_has_its_row() -> None:
    assert [int(row) for row in ROWS] == [*range(1, 19), *range(1, 11)]


@pytest.mark.parametrize("test", re.findall(r"^- `(.+)`$", TESTS, re.MULTILINE))
def test_the_named_test_is_there(test: str) -> None:
    file, name = test.split("::")
    assert f"def {name}(" in (paths.root() / file).read_text(encoding="utf-8")

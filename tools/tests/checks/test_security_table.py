"""The tests that docs/security.md names exist."""

from __future__ import annotations

import re

import pytest

from fairlead.common import paths

TEXT = (paths.root() / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if re.match(r"\| \d+ ", line)]
LINK = re.compile(r"\]\(\.\./([^)]+\.py)\)((?:,? `test_\w+`)+)")


def test_every_threat_and_every_mitigation_has_its_row() -> None:
    numbers = [int(row.split()[1]) for row in ROWS]
    assert numbers == [*range(1, 19), *range(1, 11)]


@pytest.mark.parametrize(("file", "names"), sorted(set(LINK.findall(TEXT))))
def test_the_tests_of_a_row_are_there(file: str, names: str) -> None:
    code = (paths.root() / file).read_text(encoding="utf-8")
    missing = [name for name in re.findall(r"test_\w+", names) if f"def {name}(" not in code]
    assert not missing
    assert TEXT.count("`test_") == sum(
        len(re.findall(r"`test_", names)) for _, names in LINK.findall(TEXT)
    )

"""The limits of programs that check what anybody may have sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.common.errors import FairleadError
from fairlead.opa import cli

DEEP = "package a\n\nx := " + 60_000 * "[" + 60_000 * "]" + "\n"


def check(folder: Path, text: str) -> None:
    (folder / "a.rego").write_text(text)
    schemas = folder / "schemas"
    schemas.mkdir(exist_ok=True)
    cli.check(folder / "a.rego", schemas)


def test_what_fits_is_checked(tmp_path: Path) -> None:
    with cli.limits(seconds=600, memory=256):
        check(tmp_path, "package a\n\nx := 1\n")


def test_a_program_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with (
        cli.limits(seconds=0, memory=256),
        pytest.raises(FairleadError, match="opa check did not end within 0 s"),
    ):
        check(tmp_path, DEEP)


def test_a_program_gets_no_more_memory(tmp_path: Path) -> None:
    with (
        cli.limits(seconds=600, memory=40),
        pytest.raises(FairleadError, match=r"^opa check needs more than 40 MiB$"),
    ):
        check(tmp_path, DEEP)

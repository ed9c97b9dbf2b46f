"""Commands in messages work where the message is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairlead.cli import output, own_commands


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program of a checkout, which this process was called as; no other is on the PATH."""
    program = tmp_path / ".venv" / "bin" / "fairlead"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.chdir(tmp_path)
    return program


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("run `fairlead down --name demo`", "run `.venv/bin/fairlead down --name demo`"),
        (
            "next: fairlead test; fairlead up",
            "next: .venv/bin/fairlead test; .venv/bin/fairlead up",
        ),
        ("the namespace fairlead is there", "the namespace fairlead is there"),
        ("`kubectl -n fairlead get pods`", "`kubectl -n fairlead get pods`"),
        ("applying ConfigMap fairlead", "applying ConfigMap fairlead"),
    ],
)
def test_the_program_of_a_checkout_is_named_by_its_path(
    program: Path, message: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own_commands.as_typed(message) == shown
    output.note(message)
    assert capsys.readouterr().err == f"{shown}\n"


def test_after_another_folder_the_path_is_whole(program: Path) -> None:
    text = own_commands.as_typed("next: cd mine; fairlead test")
    assert text == f"next: cd mine; {program} test"


def test_a_program_on_the_path_is_called_by_its_name(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin")
    monkeypatch.setattr(sys, "argv", ["fairlead", "up"])
    assert own_commands.as_typed("`fairlead up`") == "`fairlead up`"


def test_another_installation_on_the_path_is_not_meant(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / "fairlead"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n# another\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert own_commands.as_typed("`fairlead up`") == "`.venv/bin/fairlead up`"


def test_what_is_not_the_program_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert own_commands.as_typed("`fairlead up`") == "`fairlead up`"

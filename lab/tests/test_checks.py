"""`fairlead test` checks all code of the checkout, with each of its checkers."""

from __future__ import annotations

import re
import subprocess
from pathlib import PurePath

import pytest

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from lab import checkout


def code() -> list[str]:
    """Every Python file of the checkout that Git tracks."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    done = subprocess.run(argv, cwd=paths.root(), capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is not a checkout of Git")
    return done.stdout.splitlines()


def below(path: str, folders: tuple[str, ...]) -> bool:
    return any(PurePath(path).is_relative_to(folder) for folder in folders)


def test_all_code_is_linted() -> None:
    assert [path for path in code() if not below(path, checkout._CODE)] == []


def test_all_code_is_typed_once() -> None:
    counts = dict.fromkeys(code(), 0)
    for arguments in checkout._TYPED:
        folders = tuple(argument for argument in arguments if not argument.startswith("--"))
        excluded = [
            argument.partition("=")[2]
            for argument in arguments
            if argument.startswith("--exclude=")
        ]
        for package, folder in {"fairlead": "tools/fairlead", "lab": "lab"}.items():
            if f"--package={package}" in arguments:
                folders = (folder,)
        for path in counts:
            counts[path] += below(path, folders) and not any(
                re.search(pattern, path) for pattern in excluded
            )
    assert {path: count for path, count in counts.items() if count != 1} == {}


def test_the_type_checker_tells_all_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def failing(argv: list[str]) -> str:
        asked.append(argv[-1])
        raise FairleadError(f"wrong in {argv[-1]}")

    monkeypatch.setattr(checkout, "_program", failing)
    with pytest.raises(
        FairleadError, match=r"wrong in --package=fairlead(.|\n)*wrong in integration/tests"
    ):
        checkout._typed(["mypy"])
    assert len(asked) == len(checkout._TYPED)


def test_each_rule_of_the_linter_that_does_not_count_has_a_reason() -> None:
    """In the configuration, a rule is four spaces in; its reason is a comment among its lines."""
    text = (paths.root() / ".regal" / "config.yaml").read_text()
    rules = re.split(r"^(?= {4}\w)", text, flags=re.MULTILINE)[1:]
    assert len(rules) > 5
    assert [rule for rule in rules if "#" not in rule] == []

"""Policies that passed are not tested again; the real OPA tests them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import policy_files, remembered, workspace
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


@pytest.fixture
def policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's policies with one test that is quick, and a cache of their own."""
    monkeypatch.setattr(remembered, "_home", lambda: tmp_path / "tested")
    folder = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), folder, ignore=shutil.ignore_patterns("*_test.rego"))
    (folder / "main_test.rego").write_text("package system_test\n\ntest_one if true\n")
    return folder


def require(policies: Path) -> int:
    return workspace.require_good(
        PolicySet.load(Settings(), policies), Progress(), remembering=True
    ).passed


def test_what_passed_is_not_tested_again(policies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert require(policies) == 1

    def again(*_: object) -> None:
        raise AssertionError("tested again")

    with monkeypatch.context() as patched:
        patched.setattr(cli, "test", again)
        assert require(policies) == 1
        with pytest.raises(AssertionError, match="tested again"):
            workspace.require_good(PolicySet.load(Settings(), policies), Progress())


@pytest.mark.parametrize("name", ["main_test.rego", "main.rego"])
def test_what_changed_is_tested(policies: Path, name: str) -> None:
    require(policies)
    (policies / name).write_text((policies / name).read_text() + "\ntest_two if false\n")
    for _ in range(2):  # what failed is tested again
        with pytest.raises(FairleadError, match="policy tests fail"):
            require(policies)


def test_the_cache_keeps_the_newest(tmp_path: Path, policies: Path) -> None:
    result = cli.Tested(1, ())
    for number in range(60):
        remembered.remember(f"{number:064}", result)
    assert len(list((tmp_path / "tested").iterdir())) == 50
    assert remembered.passed(f"{59:064}") == result


def test_a_damaged_cache_or_none_is_no_error(tmp_path: Path, policies: Path) -> None:
    home = tmp_path / "tested"
    home.mkdir()
    (home / "damaged").write_text("x")
    assert remembered.passed("damaged") is None
    shutil.rmtree(home)
    home.write_text("a file")
    remembered.remember("any", cli.Tested(1, ()))
    assert remembered.passed("any") is None
    assert require(policies) == 1

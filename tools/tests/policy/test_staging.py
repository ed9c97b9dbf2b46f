"""Which modules a revision may hold, and how it is staged beside the previous one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.policy import policy_files, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

QUIET = Progress()


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A copy of the policies to change."""
    shutil.copytree(policy_files.builtin(), tmp_path / "policies")
    return tmp_path / "policies"


@pytest.mark.parametrize(
    ("file", "text", "package", "row"),
    [
        ("extra.rego", "package system.authz\n\nallow := true\n", "system.authz", 1),
        ("extra.rego", "# why\npackage system.log\n", "system.log", 2),
        ("deep/down/log.rego", "package system.log\n\ndrop := false\n", "system.log", 1),
        ("node_pool/authz.rego", "package system.authz.more\n\nx := 1\n", "system.authz", 1),
        ("extra.rego", 'package system["\\u0061uthz"]\n\nallow := true\n', "system.authz", 1),
        ("extra.rego", "package system\n\nauthz.allow := true\n", "system.authz", 1),
        ("extra.rego", 'package system\n\nlog["drop"] if input.x\n', "system.log", 1),
    ],
)
def test_a_package_that_opa_reads_from_a_file_is_refused_with_the_file_wherever_it_is(
    policies: Path, file: str, text: str, package: str, row: int
) -> None:
    (policies / file).parent.mkdir(parents=True, exist_ok=True)
    (policies / file).write_text(text)
    with pytest.raises(InputError) as caught:
        staging.stage(PolicySet.load(Settings(), policies).bundle, QUIET)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{policies / file}:{row}: ")
    file = "authz.rego" if "authz" in package else "fairlead-opa"
    assert f"package {package}, which is OPA's own and comes from {file} alone" in str(caught.value)


@pytest.mark.parametrize(
    ("package", "place"),
    [
        ("placement", "placement"),
        ("placement.team", "placement"),
        ("inventory", "inventory"),
        ("fairlead.placement", "fairlead.placement"),
    ],
)
def test_a_package_where_data_are_is_refused(policies: Path, package: str, place: str) -> None:
    (policies / "extra.rego").write_text(f"# why\npackage {package}\n\nx := 1\n")
    with pytest.raises(InputError) as caught:
        staging.stage(PolicySet.load(Settings(), policies).bundle, QUIET)
    assert str(caught.value) == (
        f"{policies / 'extra.rego'}:2: is in package {package}, and would hide the data that "
        f"Fairlead reads at data.{place}: choose another package"
    )


def test_packages_that_only_begin_like_data_are_staged(policies: Path) -> None:
    for number, package in enumerate(("placements", "fairlead.place", "k8s.placement.more")):
        (policies / f"x{number}.rego").write_text(f"package {package}\n\nx := 1\n")
    staging.stage(PolicySet.load(Settings(), policies).bundle, QUIET)


def test_what_only_resembles_it_is_staged(policies: Path) -> None:
    (policies / "extra.rego").write_text("package system.authzed\n\nx := data.system.authz.allow\n")
    (policies / "more.rego").write_text("package log\n\nauthz := true\n")
    assert {"extra.rego"} <= staging.stage(
        PolicySet.load(Settings(), policies).bundle, QUIET
    ).modules.keys()


def test_packages_get_names_of_their_revision_and_what_opa_asks_keeps_its_own() -> None:
    staged = staging.stage(PolicySet.load(Settings()).bundle, QUIET)
    for key, text in staged.modules.items():
        match = re.search(r"^package (\S+)", text, re.MULTILINE)
        assert match
        moved = key.startswith(f"{staged.revision}.")
        assert match[1].startswith(f"r_{staged.revision}." if moved else "system"), key


def test_the_modules_of_a_package_are_one() -> None:
    staged = staging.stage(PolicySet.load(Settings()).bundle, QUIET)
    (key,) = [key for key in staged.modules if ".node_pool." in key]
    assert key == f"{staged.revision}.node_pool.node_pool.rego"


def test_packages_below_another_one_go_with_it(policies: Path) -> None:
    (policies / "sample.rego").write_text("package sample\n\nx := data.sample.first.variant\n")
    (policies / "first.rego").write_text('package sample.first\n\nvariant := "A"\n')
    bundle = staging.stage(PolicySet.load(Settings(), policies).bundle, QUIET)
    texts = {text for text in bundle.modules.values() if ".sample" in text}
    prefix = f"r_{bundle.revision}.sample"
    assert texts == {
        f"package {prefix}\n\nx := data.{prefix}.first.variant\n",
        f'package {prefix}.first\n\nvariant := "A"\n',
    }

"""The policies of transient access are a part of a deployment only if the settings want them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from access_requests import MODULES, request

from fairlead.common import paths
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import intents, staging, usage
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

QUIET = Progress()
WANTED = Settings(access=Access())


def test_by_default_nothing_of_it_is_deployed() -> None:
    settings = Settings()
    deployed = PolicySet.load(settings).modules
    assert not [key for key in deployed if key.startswith(("access.", "lib.transient", "lib.inst"))]
    assert "access" not in settings.deployed_document()
    assert settings.document()["access"] is False


def test_if_it_is_wanted_all_of_it_is_deployed_and_used() -> None:
    added = MODULES.keys() - PolicySet.load(Settings()).modules.keys()
    assert {key.rpartition(".rego")[0].rpartition(".")[0] for key in added} == {
        "access",
        "lib.instants",
        "lib.transient_access",
    }
    assert WANTED.deployed_document()["access"] == Access().model_dump(by_alias=True)
    assert usage.unused_packages(MODULES, {}, QUIET) == []


def test_a_staged_revision_answers_at_the_same_path() -> None:
    staged = staging.stage(PolicySet.load(WANTED).bundle, QUIET)
    assert "package controller\n" in staged.modules["access.controller.rego"]
    answer = cli.evaluate("data.controller", modules=staged.modules, data={}, input=request())
    assert answer.keys() == {"status", "children", "resyncAfterSeconds"}
    assert {key[:12] for key in staged.modules if key[12:13] == "."} == {staged.revision}


def test_until_the_staged_modules_are_there_the_answer_is_an_error() -> None:
    """The module of the path may be loaded first, as its key sorts before some revisions."""
    staged = staging.stage(PolicySet.load(WANTED).bundle, QUIET)
    alone = {key: staged.modules[key] for key in ("access.controller.rego", "main.rego")}
    with pytest.raises(FairleadError, match="there is no decision"):
        cli.evaluate("data.controller", modules=alone, data={}, input=request())


def test_each_file_needs_only_those_before_it() -> None:
    keys = sorted(key for key in MODULES if key.startswith(("access.", "lib.")))
    for number in range(1, len(keys) + 1):
        loaded = {key: MODULES[key] for key in keys[:number]}
        assert cli.evaluate("true", modules=loaded, data={}) is True


def test_the_folder_of_the_policies_is_a_bundle(tmp_path: Path) -> None:
    at = tmp_path / "input.json"
    at.write_text(json.dumps(request()))
    opa = toolchain.ensure(["opa"], QUIET)["opa"]
    printed = subprocess.check_output(
        [opa, "eval", "--bundle=policies", "--format=raw", f"--input={at}", "data.controller"],
        cwd=paths.root(),
        text=True,
    )
    assert json.loads(printed).keys() == {"status", "children", "resyncAfterSeconds"}


@pytest.mark.parametrize("name", ["controller", "k8s"])
def test_no_policy_of_a_user_has_the_package_of_a_path(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / f"{name}.rego").write_text(f"package {name}\n")
    (folder / "intent.yaml").write_text("requests: [{kinds: [v1/Pod], operations: [CREATE]}]\n")
    with pytest.raises(FairleadError, match="has a meaning of its own"):
        intents.in_folder(tmp_path)

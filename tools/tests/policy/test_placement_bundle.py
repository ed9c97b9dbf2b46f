"""Placement over clusters is a part of a deployment only if the settings want it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import joining, staging, tables, usage
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

QUIET = Progress()
WANTED = Settings(placement=True)
DATA = {
    "placement": {
        "clusters": {"one": {"jurisdiction": "de", "location": "on-prem"}},
        "customers": {"acme": {"jurisdictions": ["de"]}},
    }
}
INPUT = {"resource": {"metadata": {"annotations": {"customer": "acme"}}}}
ANSWER = {
    "annotations": {"replica-set-preferences": {"clusters": {"one": {"weight": 1}}}},
    "errors": {},
    "explanation": {"one": "allowed"},
}


def test_by_default_nothing_of_it_is_deployed() -> None:
    settings = Settings()
    assert not [key for key in PolicySet.load(settings).modules if "placement" in key]
    assert "placement" not in settings.deployed_document()
    assert tables.namespace_labels([], settings) == []


def test_if_it_is_wanted_all_of_it_is_deployed_and_used() -> None:
    bundle = PolicySet.load(WANTED)
    assert {
        "placement.placement.rego",
        "lib.workload_placement.decision.decision.rego",
    } <= bundle.modules.keys()
    assert WANTED.deployed_document()["placement"] is True
    assert tables.namespace_labels([], WANTED) == ["customer"]
    assert usage.unused_packages(bundle.modules, {}, QUIET) == []


def test_a_staged_revision_answers_at_the_same_path() -> None:
    staged = staging.stage(PolicySet.load(WANTED).bundle, QUIET)
    assert "package k8s.placement\n" in staged.modules["placement.placement.rego"]
    answer = cli.evaluate("data.k8s.placement", modules=staged.modules, data=DATA, input=INPUT)
    assert answer == ANSWER
    assert {key[:12] for key in staged.modules if key[12:13] == "."} == {staged.revision}


@pytest.mark.parametrize("query", ["data.k8s.placement", "data.system.main"])
def test_the_folder_of_the_policies_is_a_bundle(tmp_path: Path, query: str) -> None:
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "input.json").write_text(json.dumps(INPUT))
    opa = toolchain.ensure(["opa"], QUIET)["opa"]
    arguments = [f"--data={tmp_path / 'data.json'}", f"--input={tmp_path / 'input.json'}", query]
    printed = subprocess.check_output(
        [opa, "eval", "-b", "policies", "-f", "raw", "--fail", *arguments],
        cwd=paths.root(),
        text=True,
    )
    assert query == "data.system.main" or json.loads(printed) == ANSWER


def test_each_file_needs_only_those_before_it() -> None:
    """Sidecars load one file at a time, and kube-mgmt tries again but twice. A deployment joins
    the modules of a package.
    """
    every = PolicySet.load(WANTED).modules
    modules = joining.join(
        {key: text for key, text in every.items() if key.startswith(("lib.", "placement."))}
    )
    keys = sorted(modules)
    assert len(keys) > 12
    for number in range(1, len(keys) + 1):
        loaded = {key: modules[key] for key in keys[:number]}
        assert cli.evaluate("true", modules=loaded, data={}) is True

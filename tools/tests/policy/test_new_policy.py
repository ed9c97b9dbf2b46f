"""`fairlead new policy` and `fairlead init` write policies that pass every check, or nothing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import command_line
import pytest
import yaml

from fairlead.checks import policies
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.policy import cases, fairlead_yaml, new_policy, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def test_a_new_policy_passes_all_checks_and_is_one_folder(tmp_path: Path) -> None:
    written = new_policy.policy("sample-policy", tmp_path)
    assert {path.relative_to(tmp_path).parts[0] for path in written} == {
        "sample_policy",
        "intent.schema.json",
    }
    results = [*policies.run(PolicySet.examples(Settings(), tmp_path), progress=Progress())]
    assert [result for result in results if not result.passed] == []
    assert results[0].detail == "2 tests passed"


def test_a_second_one_stands_beside_the_first(tmp_path: Path) -> None:
    for name in ("sample-policy", "another-sample"):
        new_policy.policy(name, tmp_path)
    active = PolicySet.load(Settings(), tmp_path).active
    assert [one.intent.name for one in active] == ["another-sample", "node-pool", "sample-policy"]
    assert all(
        result.passed
        for result in policies.run(PolicySet.examples(Settings(), tmp_path), progress=Progress())
    )


def test_a_copy_of_the_projects_policies_is_what_is_checked(tmp_path: Path) -> None:
    copy = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), copy)
    broken = copy / "node_pool" / "node_pool.rego"
    broken.write_text(broken.read_text() + "\nunfinished := {\n")
    steps = {
        result.step: result
        for result in policies.run(PolicySet.examples(Settings(), copy), progress=Progress())
    }
    assert {name for name, step in steps.items() if not step.passed} == {
        "check and test",
        "format",
        "cases",
    }
    assert f"{broken}:" in steps["check and test"].detail


def test_a_new_repository_has_settings_that_name_its_policies(tmp_path: Path) -> None:
    written = new_policy.repository(tmp_path / "mine", "sample-policy")
    assert {str(path.relative_to(tmp_path / "mine")) for path in written} == {
        "README.md",
        ".gitignore",
        ".github/workflows/policies.yml",
        "fairlead.yaml",
        "policies/intent.schema.json",
        "policies/sample_policy/intent.yaml",
        "policies/sample_policy/sample_policy.rego",
        "policies/sample_policy/sample_policy_test.rego",
        "policies/sample_policy/cases/sample_policy.yaml",
        "policies/sample_policy/README.md",
    }
    settings = fairlead_yaml.load(tmp_path / "mine" / "fairlead.yaml")
    assert "sample_policy.sample_policy.rego" in PolicySet.load(settings).modules


def test_its_workflow_pins_fairlead_and_runs_its_own_cases_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_policy.repository(tmp_path, "sample-policy")
    workflow = yaml.safe_load((tmp_path / ".github/workflows/policies.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    (ref,) = [step["with"]["ref"] for step in steps if "ref" in step.get("with", {})]
    assert re.fullmatch(r"[0-9a-f]{40}|v[0-9.]+", ref)
    assert workflow["permissions"] == {"contents": "read"}
    program = ".fairlead-checkout/.venv/bin/fairlead "
    runs = [step["run"] for step in steps if program in step.get("run", "")]
    assert runs == [
        f"{program}test",
        f"{program}verify --cases policies --policies policies --engine opa",
    ]
    monkeypatch.chdir(tmp_path)
    for run in runs:
        done = command_line.fairlead(*run.removeprefix(program).split(), "-o", "json")
        assert done.returncode == 0, done.stderr
    assert {row["intent"] for row in json.loads(done.stdout)} == {"sample-policy"}


def test_test_is_about_the_policies_of_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs nothing that only developers of Fairlead have."""
    new_policy.repository(tmp_path, "sample-policy")
    monkeypatch.chdir(tmp_path)
    done = command_line.fairlead("test", "-o", "json")
    assert done.returncode == 0, done.stderr
    steps = [row["step"] for row in json.loads(done.stdout)]
    assert steps == ["check and test", "format", "cases", "pages"]
    assert done.stderr.count("settings: fairlead.yaml") == 1
    with_steps = command_line.fairlead("test", "--step", "ruff")
    assert with_steps.returncode == 2
    assert "have steps of their own" in with_steps.stderr


def test_test_runs_nothing_else_if_the_settings_name_no_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fairlead.yaml").write_text("contact: me\n")
    monkeypatch.chdir(tmp_path)
    done = command_line.fairlead("test", "--step", "imports")
    assert done.returncode == 2
    assert "the settings name no folder of policies" in done.stderr


def test_cases_of_a_folder_of_policies_are_those_in_its_folders_of_cases(tmp_path: Path) -> None:
    new_policy.policy("sample-policy", tmp_path)
    assert [path.parent.name for path in cases.in_path(tmp_path)] == ["cases"]


def test_a_repository_is_not_written_over_another(tmp_path: Path) -> None:
    (tmp_path / "fairlead.yaml").write_text("contact: me\n")
    with pytest.raises(UsageError, match=r"fairlead\.yaml is there already"):
        new_policy.repository(tmp_path, "sample-policy")
    assert [path.name for path in tmp_path.iterdir()] == ["fairlead.yaml"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Replica", "cannot name a policy"),
        ("sample_policy", "cannot name a policy"),
        ("a--b", "cannot name a policy"),
        ("node-pool", "is there already"),
        ("review", "is there already"),
        ("mine", "is there already"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match=re.escape(message)):
        new_policy.policy(name, tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]

"""The policies of a command, read once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fairlead.cli import options
from fairlead.common import paths, yaml_files
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.policy import new_policy, policy_files, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import IntentSettings, Settings


def _settings(**values: object) -> Settings:
    return Settings.model_validate(values)


def test_has_modules_intents_and_instances_of_the_settings() -> None:
    settings = _settings(intents={"run-as-user": {}})
    policies = PolicySet.load(settings)
    assert policies.settings is settings
    assert policies.modules == PolicySet.load(settings).modules
    assert policies.revision == PolicySet.load(settings).revision
    assert policies.folders == (paths.root() / "policies",)
    assert [instance.name for instance in policies.active] == ["node-pool", "run-as-user"]
    assert "image-sources" in [intent.name for intent in policies.intents]


def test_reads_a_users_folder_beside_the_projects(tmp_path: Path) -> None:
    assert PolicySet.load(Settings(), tmp_path).folders[1:] == (tmp_path.resolve(),)


def test_a_wrong_parameter_is_refused_at_the_door() -> None:
    with pytest.raises(UsageError, match=r"intents\.run-as-user\.parameters\.users"):
        PolicySet.load(_settings(intents={"run-as-user": {"parameters": {"users": 1}}}))


def test_what_is_deployed_has_the_same_instances_and_revision() -> None:
    settings = _settings(intents={"run-as-user": {}})
    policies = PolicySet.load(settings)
    staged = staging.staged(policies, "opa", Progress())
    deployed = PolicySet.deployed(staged.modules, settings)
    assert deployed.revision == staged.revision
    assert [(i.name, i.parameters, i.requests) for i in deployed.active] == [
        (i.name, i.parameters, i.requests) for i in policies.active
    ]


def test_what_is_deployed_for_python_has_its_code() -> None:
    staged = staging.staged(PolicySet.load(Settings()), "python", Progress())
    assert "node_pool.engines.python.py" in staged.modules
    assert PolicySet.deployed(staged.modules, Settings()).revision == staged.revision


def test_a_command_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_policy.policy("sample-policy", tmp_path / "policies")
    settings_file = tmp_path / "fairlead.yaml"
    settings_file.write_text("policies: [policies]\nintents: {sample-policy: true}\n")
    counts: Counter[Path] = Counter()
    read_text = yaml_files.read_text

    def counting(path: Path, **options: bool) -> str:
        counts[path] += 1
        return read_text(path, **options)

    monkeypatch.setattr(yaml_files, "read_text", counting)
    policies = options.load_policies(settings_file, None)
    assert counts[tmp_path / "policies" / "sample_policy" / "intent.yaml"] == 1
    assert counts[policy_files.builtin() / "node_pool" / "node_pool.rego"] == 1
    assert set(counts.values()) == {1}
    counts.clear()
    policies.under(policies.settings.enforced())
    policies.with_examples()
    assert not counts


def test_other_settings_change_what_is_in_force(tmp_path: Path) -> None:
    new_policy.policy("sample-policy", tmp_path)
    policies = PolicySet.load(Settings(), tmp_path)
    assert [instance.name for instance in policies.active] == ["node-pool", "sample-policy"]
    project = policies.under(Settings())
    assert [instance.name for instance in project.active] == ["node-pool"]
    assert "sample_policy.sample_policy.rego" not in project.modules
    intents = {"node-pool": IntentSettings(enabled=False)}
    off = policies.settings.model_copy(update={"intents": intents})
    assert [instance.name for instance in policies.under(off).active] == ["sample-policy"]


def test_examples_are_in_force_with_whatever_parameters_they_need() -> None:
    policies = PolicySet.examples(Settings.model_validate({"intents": {"run-as-user": False}}))
    names = {instance.name for instance in policies.active}
    assert "replica-limits" in names  # which has a parameter without a default
    assert "run-as-user" not in names
    assert policies.with_examples().revision == policies.revision

"""The policies of a command, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


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

"""The setting access: transient role bindings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead.common.errors import UsageError
from fairlead.policy.fairlead_yaml import load
from fairlead.settings.access import Access
from fairlead.settings.models import Settings


def loaded(folder: Path, text: str) -> Settings:
    file = folder / "fairlead.yaml"
    file.write_text(f"{text}\n")
    return load(file)


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("contact: nobody", None),
        ("access: false", None),
        ("access: true", Access()),
        ("access: {}", Access()),
        ("access: {longest: 12h, approvers: [leads]}", Access(longest="12h", approvers=["leads"])),
    ],
)
def test_it_is_off_or_has_its_defaults(tmp_path: Path, text: str, access: Access | None) -> None:
    settings = loaded(tmp_path, text)
    assert settings.access == access
    assert ("controller" in [service.package for service in settings.services()]) == bool(access)
    stored = json.loads(json.dumps(settings.deployed_document()))
    assert Settings.model_validate(stored).access == access
    assert Settings.model_validate(settings.document()).access == access


def test_the_longest_window_in_seconds() -> None:
    assert Access(longest="12h").longest_seconds == 43200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("access: sometimes", "access is 'sometimes': write a mapping"),
        ("access: {longest: 1y}", "'1y' is not a duration"),
        ("access: {aprovers: [a]}", "unknown key 'access.aprovers': did you mean 'approvers'?"),
        ("access: {controller: ''}", "access.controller is ''"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as mistake:
        loaded(tmp_path, text)
    assert message in str(mistake.value)


def test_the_controllers_former_account_means_the_one_of_now() -> None:
    former = Access(controller="system:serviceaccount:fairlead:fairlead-access")
    assert (former, former.own_controller) == (Access(), True)
    other = Access(controller="system:serviceaccount:metacontroller:metacontroller")
    assert not other.own_controller

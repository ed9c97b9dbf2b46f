"""The program of each sidecar on this machine, and the error if there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.deployment import sidecars
from fairlead.opa import containers
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake program kube-mgmt that is not on PATH yet."""
    monkeypatch.delenv("FAIRLEAD_KUBE_MGMT", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    path = tmp_path / "kube-mgmt"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return path


def test_kube_mgmt_is_found_on_path_or_where_the_variable_says(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert sidecars.KUBE_MGMT.command() == [str(program)]
    other = program.with_name("other")
    program.rename(other)
    monkeypatch.setenv("FAIRLEAD_KUBE_MGMT", str(other))
    assert sidecars.KUBE_MGMT.command() == [str(other)]


def test_without_a_program_it_is_told_how_to_name_one(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UsageError,
        match="put it on PATH, set FAIRLEAD_KUBE_MGMT to its file, or use --sidecar sync",
    ):
        sidecars.KUBE_MGMT.command()
    for wrong in (str(program.parent), f"{program}-none"):
        monkeypatch.setenv("FAIRLEAD_KUBE_MGMT", wrong)
        with pytest.raises(UsageError, match="which is not a program"):
            sidecars.KUBE_MGMT.command()


def flags_of(settings: Settings) -> list[str]:
    policies = PolicySet.load(settings)
    return sidecars.SYNC.arguments(containers.MOUNTED, policies, "127.0.0.1:1", "127.0.0.1:2")


def test_only_a_sidecar_that_confirms_data_can_bound_their_age() -> None:
    bounded = Settings(max_staleness=30)
    sidecars.SYNC.require(bounded)
    assert "--max-staleness=30" in flags_of(bounded)
    assert not [flag for flag in flags_of(Settings()) if "staleness" in flag]
    with pytest.raises(
        UsageError,
        match="maxStaleness: kube-mgmt confirms no data: use --sidecar sync, or leave it",
    ):
        sidecars.KUBE_MGMT.require(bounded)
    sidecars.KUBE_MGMT.require(Settings())


def test_sync_is_always_there() -> None:
    assert sidecars.SYNC.command() == [sys.executable, "-m", "fairlead"]


def test_the_page_says_what_is_lost_with_kube_mgmt() -> None:
    page = (paths.root() / "docs" / "operations.md").read_text()
    table = page.partition("| | `sync` | `kube-mgmt` |\n")[2].partition("\n\n")[0]
    lost = " ".join(row.split("|")[3] for row in table.splitlines())
    settings = Settings(max_staleness=10)
    refused = [problem.partition(":")[0] for problem in sidecars.KUBE_MGMT.problems(settings)]
    assert refused == ["maxStaleness"]
    assert "`maxStaleness`" in lost
    abilities = {
        "look_up": 'The pod is refused with "retry in a moment"',
        "unloads": "They stay until OPA restarts",
        "rereads": "Reads them once",
    }
    for ability, sentence in abilities.items():
        assert (getattr(sidecars.SYNC, ability), getattr(sidecars.KUBE_MGMT, ability)) == (
            True,
            False,
        )
        assert sentence in lost
    replicated = Settings.model_validate(
        {
            "replicate": [
                {
                    "group": "",
                    "version": "v1",
                    "resource": "services",
                    "namespaced": True,
                    "fields": ["spec.type"],
                }
            ]
        }
    )
    fields = [
        [
            argument
            for argument in sidecar.arguments(
                containers.MOUNTED, PolicySet.load(replicated), "127.0.0.1:1", "127.0.0.1:2"
            )
            if argument.startswith(f"{flags.REPLICATE_FIELDS}=v1/services")
        ]
        for sidecar in (sidecars.SYNC, sidecars.KUBE_MGMT)
    ]
    assert (len(fields[0]), fields[1]) == (1, [])
    assert "Whole, without bounds" in lost

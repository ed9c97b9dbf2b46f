"""The options of `fairlead place` that carry out decisions, and `fairlead up --member`: what they
print, and which do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli import place, up
from fairlead.common import paths
from fairlead.common.errors import UsageError

SCENARIO = paths.root() / "testdata" / "placement"
SOURCE = "--source=https://git.example.com/shop.git//deploy"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        place.command,
        [f"--data={SCENARIO / 'data.yaml'}", *map(str, arguments)],
        standalone_mode=False,
        catch_exceptions=False,
    )


def test_each_workload_without_errors_has_a_policy_for_karmada() -> None:
    files = (SCENARIO / "apps" / "stadtwerke.yaml", SCENARIO / "mistakes.yaml")
    result = run(*files, "-o", "karmada")
    assert result.return_value == 1
    policies = list(yaml.safe_load_all(result.stdout))
    assert {policy["kind"] for policy in policies} == {"PropagationPolicy"}
    assert {policy["metadata"]["namespace"] for policy in policies} == {"stadtwerke"}
    assert "error: Deployment default/abroad: invalid cluster(s): us-dallas\n" in result.stderr


def test_an_application_set_is_printed_as_people_write_it() -> None:
    result = run(SCENARIO / "apps" / "stadtwerke.yaml", "-o", "argocd", SOURCE)
    assert result.return_value == 0
    assert "  templatePatch: |\n    spec:\n" in result.stdout
    (application_set,) = yaml.safe_load_all(result.stdout)
    assert application_set["metadata"] == {"name": "stadtwerke", "namespace": "argocd"}


def test_decisions_with_errors_are_not_carried_out() -> None:
    """It does not even ask which members there are."""
    result = run(SCENARIO / "mistakes.yaml", "--apply", "--member=us-dallas=nowhere")
    assert result.return_value == 1
    assert result.stdout == ""
    assert result.stderr.endswith("nothing was changed\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--apply"], "--apply needs to know the clusters"),
        (["--member=a=b"], "--member is for --apply"),
        (["--kubeconfig=x"], "--kubeconfig is for --apply"),
        (["--apply", "--member=a=b", "-o", "karmada"], "-o karmada prints what others carry out"),
        (["-o", "argocd"], "-o argocd needs to know where Argo CD finds the manifests"),
        (["-o", "argocd", "--source=x"], "--source x: write URL//FOLDER"),
        (["-o", "karmada", SOURCE], "--source is for -o argocd"),
        ([SOURCE], "--source is for -o argocd"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        run(SCENARIO / "apps" / "stadtwerke.yaml", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [["--replicas=2"], ["--sidecar=sync"], ["--no-deploy"], ["--name=x"], ["--cluster=kind"]],
)
def test_members_are_embedded_clusters_without_fairlead(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="does not apply to members"):
        CliRunner().invoke(
            up.command,
            ["--member=a", *arguments],
            standalone_mode=False,
            catch_exceptions=False,
        )


def test_a_wrong_name_is_refused_before_any_member_starts() -> None:
    with pytest.raises(UsageError, match="cannot name a cluster"):
        CliRunner().invoke(
            up.command,
            ["--member=fine", "--member=Not_Fine"],
            standalone_mode=False,
            catch_exceptions=False,
        )

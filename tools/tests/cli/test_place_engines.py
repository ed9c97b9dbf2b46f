"""The options of `fairlead place` that carry out decisions, and `fairlead up --member`: what they
print, and which do not go together."""

from __future__ import annotations

from pathlib import Path

import click
import placed
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.clusters import up
from fairlead.cli.placement import place, place_execution
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.federation import members
from fairlead.federation.changes import Change
from fairlead.federation.execution import Report
from fairlead.federation.watching import Decision, Watch

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
        (["--apply", "--member=a=b", "-o", "karmada"], "name its context by --host CONTEXT"),
        (["--apply", "--member=a=b", "-o", "annotations"], "prints what others carry out"),
        (["--apply", "-o", "karmada"], "name its context by --host CONTEXT"),
        (["--host=x"], "--host reads workloads and data from the cluster: leave out --data"),
        (["--apply", "--member=a=b", "--share=nan"], "a number above 0, up to 1"),
        (["--selector=x"], "--selector is for --host"),
        (["--watch", "-o", "annotations"], "--watch shows what moves, not -o annotations"),
        (["--watch", "-"], "--watch cannot read standard input again"),
        (["-o", "argocd"], "-o argocd needs to know where Argo CD finds the manifests"),
        (["-o", "argocd", "--source=x"], "--source x: write URL//FOLDER"),
        (["-o", "karmada", SOURCE], "--source is for -o argocd"),
        ([SOURCE], "--source is for -o argocd"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        run(SCENARIO / "apps" / "stadtwerke.yaml", *arguments)


def test_a_report_without_objects_is_printed_with_its_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As if no member can be reached."""
    problem = "us-dallas: the API server cannot be reached"
    place_execution.emit(placed.result(), Report(problems=[problem]), "table")
    printed = capsys.readouterr()
    assert printed.out.split() == ["CLUSTER", "KIND", "NAMESPACE", "NAME", "REPLICAS", "ACTION"]
    assert printed.err == f"error: {problem}\n"


def test_notes_and_problems_that_are_known_are_not_printed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report(problems=["a is away", "b is away"], notes=["c is no member here", "d, too"])
    known = ["a is away", "c is no member here"]
    place_execution.emit(placed.result(), report, "table", unchanged=False, known=known)
    assert capsys.readouterr() == ("", "d, too\nerror: b is away\n")


def test_what_is_tried_again_is_printed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A watch comes back every few seconds to what could not be carried out."""
    decision = Decision(placed.result(), [Change("Job shop/web", None, "eu", 6, None, None)], [])
    held = Report(notes=["us is no member here"], problems=["the Job was not started"])
    decisions = iter([decision] * 4)
    failures: list[Watch] = []

    def following(watch: Watch) -> Decision:
        for each in decisions:
            return each
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "next", following)
    monkeypatch.setattr(Watch, "failed", lambda watch: failures.append(watch))
    monkeypatch.setattr(members, "parsed", lambda *_: [])
    reports = iter([held, held, Report(), held])
    monkeypatch.setattr(place_execution, "carried_out", lambda *_: next(reports))
    result = run(SCENARIO / "apps", "--watch", "--apply", "--member=eu=x")
    assert (result.return_value, len(failures)) == (0, 3)
    assert result.stdout.count("Job shop/web") == 2  # at first, and after the success
    assert result.stderr.count("us is no member here\n") == 2
    assert result.stderr.count("error: the Job was not started\n") == 2


@pytest.mark.parametrize("share", ["0", "-1", "1.1"])
def test_a_share_is_above_zero_and_at_most_one(share: str) -> None:
    with pytest.raises(click.BadParameter, match="0<x<=1"):
        run(SCENARIO / "apps" / "stadtwerke.yaml", "--apply", "--member=a=b", f"--share={share}")


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

"""The options of `fairlead place` for the engines that carry out decisions: what they print, and
which do not go together."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import placed
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.placement import place, place_reports
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.placement import host_inputs, karmada_apply
from fairlead.placement.changes import Change
from fairlead.placement.hosts import Host
from fairlead.placement.karmada_apply import Report
from fairlead.placement.watching import Decision, Watch

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


def test_argo_cd_may_have_another_namespace_and_project() -> None:
    options = ("--argocd-namespace=gitops", "--argocd-project=tenants")
    result = run(SCENARIO / "apps" / "stadtwerke.yaml", "-o", "argocd", SOURCE, *options)
    (application_set,) = yaml.safe_load_all(result.stdout)
    assert application_set["metadata"]["namespace"] == "gitops"
    assert application_set["spec"]["template"]["spec"]["project"] == "tenants"


def test_notes_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    result = placed.result(placed.placement({"eu": 1}, changes={"notes": ["left to it"]}))
    notes = place_reports.emit_notes(result)
    assert capsys.readouterr().err == "note: Deployment shop/web: left to it\n"
    assert place_reports.emit_notes(result, notes) == notes
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--apply"], "add -o karmada and name the context"),
        (["--apply", "-o", "karmada"], "by --host CONTEXT"),
        (["--apply", "--host=x"], "add -o karmada"),
        (["--kubeconfig=x"], "--kubeconfig is for --host"),
        (["--host=x"], "--host reads workloads and data from the cluster: leave out --data"),
        (["--selector=x"], "--selector is for --host"),
        (["--watch", "-o", "annotations"], "--watch shows what moves, not -o annotations"),
        (["--watch", "-"], "--watch cannot read standard input again"),
        (["-o", "argocd"], "-o argocd needs to know where Argo CD finds the manifests"),
        (["-o", "argocd", "--source=x"], "--source x: write URL//FOLDER"),
        (["-o", "karmada", SOURCE], "--source is for -o argocd"),
        ([SOURCE], "--source is for -o argocd"),
        (["--argocd-project=x"], "--argocd-project is for -o argocd: leave it out"),
        (["-o", "karmada", "--argocd-namespace=x"], "--argocd-namespace is for -o argocd"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        run(SCENARIO / "apps" / "stadtwerke.yaml", *arguments)


def test_a_report_without_objects_is_printed_with_its_problems(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As if the host cluster cannot be reached."""
    problem = "karmada: the API server cannot be reached"
    place_reports.emit(Report("karmada", problems=[problem]))
    printed = capsys.readouterr()
    assert printed.out.split() == ["CLUSTER", "KIND", "NAMESPACE", "NAME", "ACTION"]
    assert printed.err == f"error: {problem}\n"


def test_problems_that_were_printed_are_not_printed_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report("karmada", problems=["a is wrong", "b is wrong"])
    place_reports.emit(report, unchanged=False, printed=["a is wrong"])
    assert capsys.readouterr() == ("", "error: b is wrong\n")


def test_what_is_tried_again_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch comes back every few seconds to what could not be carried out."""
    change = Change("Deployment shop/web", None, "eu", 6, None, None)
    decisions = iter([Decision(placed.result(), [change], [])] * 4)
    failures: list[Watch] = []

    def following(_watch: Watch) -> Decision:
        for decision in decisions:
            return decision
        raise KeyboardInterrupt

    held = Report("karmada", problems=["a policy was not applied"])
    reports = iter([held, held, Report("karmada"), held])
    monkeypatch.setattr(Watch, "next", following)
    monkeypatch.setattr(Watch, "failed", lambda watch: failures.append(watch))
    monkeypatch.setattr(Host, "of_context", lambda *_: Host("karmada", ""))
    monkeypatch.setattr(host_inputs, "followed", lambda *_, **_options: nullcontext())
    monkeypatch.setattr(karmada_apply, "keep", lambda *_, progress: next(reports))
    result = CliRunner().invoke(
        place.command,
        ["--watch", "--apply", "--host=karmada", "-o", "karmada"],
        standalone_mode=False,
        catch_exceptions=False,
    )
    assert (result.return_value, len(failures)) == (0, 3)
    assert result.stdout.count("Deployment shop/web") == 2  # at first, and after the success
    assert result.stderr.count("error: a policy was not applied\n") == 2

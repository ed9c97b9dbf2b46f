"""The reports of `fairlead eval` as SARIF and JUnit XML, read by the libraries that others use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import junitparser
import pytest
from click.testing import CliRunner
from pydantic import BaseModel
from sarif_pydantic import Sarif

from fairlead import __version__
from fairlead.cli.decisions.eval import command

MANIFESTS = """\
apiVersion: v1
kind: Namespace
metadata: {name: payments, labels: {agentpool: pool1}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: payments}
spec: {containers: []}
---
apiVersion: v1
kind: Pod
metadata: {name: pinned, namespace: payments}
spec: {containers: [], nodeName: n1}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: payments}
spec:
  selector: {matchLabels: {app: web}}
  template: {spec: {containers: [], nodeSelector: {agentpool: gpu}}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a changed object and two refused ones, in a file with a special name."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my apps" / "äll.yaml"
    path.parent.mkdir()
    path.write_text(MANIFESTS)
    return Path("my apps")


def output(*arguments: str | Path) -> str:
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(command, words, standalone_mode=False, catch_exceptions=False).stdout


# In the standard (3.20.21), and not in sarif-pydantic's model.
NOT_IN_THE_MODEL = {"toolExecutionNotifications"}


def unknown_keys(model: BaseModel) -> list[str]:
    """The keys, at any depth, that the SARIF standard does not know."""
    keys = list((model.model_extra or {}).keys() - NOT_IN_THE_MODEL)
    for name in type(model).model_fields:
        value = getattr(model, name)
        for part in value if isinstance(value, list) else [value]:
            keys += unknown_keys(part) if isinstance(part, BaseModel) else []
    return keys


def sarif(*arguments: str | Path) -> Any:
    """The only run of the SARIF report, after a check of its keys and types."""
    log = json.loads(output(*arguments, "-o", "sarif"))
    assert log["version"] == "2.1.0"
    assert unknown_keys(Sarif.model_validate(log)) == []
    (run,) = log["runs"]
    return run


def test_sarif_has_the_place_and_the_intent_of_each_finding(folder: Path) -> None:
    run = sarif(folder)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("fairlead", __version__)
    assert [rule["id"] for rule in driver["rules"]] == ["node-pool"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("node-pool", "error"),
        ("node-pool", "error"),
    ]
    for result, line in zip(run["results"], (10, 15), strict=True):
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        assert location["physicalLocation"] == {
            "artifactLocation": {"uri": "my%20apps/%C3%A4ll.yaml", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": line},
        }
    assert run["results"][0]["message"]["text"].startswith(
        'Pod payments/pinned is refused: pod "pinned" sets spec.nodeName=n1'
    )


def test_what_fails_the_gate_is_an_error_in_sarif(folder: Path) -> None:
    results = sarif(folder, "--fail-on", "warned,changed")["results"]
    assert [(result["message"]["text"].split(":")[0], result["level"]) for result in results] == [
        ("Pod payments/plain is changed", "error"),
        ("Pod payments/pinned is refused", "error"),
        ("Deployment payments/web is refused", "error"),
    ]


def test_sarif_without_findings_says_that_the_check_ran(folder: Path) -> None:
    run = sarif(folder, "--namespace", "payments", "--operation", "DELETE")
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
    assert run["invocations"][0]["executionSuccessful"] is True


def test_sarif_names_files_elsewhere_by_their_full_path(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = (folder / "äll.yaml").resolve()
    here = sarif(path)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert here == {"uri": "my%20apps/%C3%A4ll.yaml", "uriBaseId": "%SRCROOT%"}
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    there = sarif(path)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert there == {"uri": path.as_uri()}


def test_an_unknown_namespace_is_a_notification_in_sarif(folder: Path) -> None:
    (folder / "äll.yaml").write_text(MANIFESTS.partition("---\n")[2])
    (notification,) = sarif(folder)["invocations"][0]["toolExecutionNotifications"]
    assert 'namespace "payments" are not known' in notification["message"]["text"]


def test_junit_has_a_testcase_for_each_object(folder: Path) -> None:
    xml = junitparser.JUnitXml.fromstring(
        output(folder, "--fail-on", "refused", "-o", "junit").encode()
    )
    (suite,) = xml
    assert (xml.tests, xml.failures, suite.tests, suite.failures) == (4, 2, 4, 2)
    cases = list(suite)
    assert [(case.classname, case.name) for case in cases] == [
        ("my apps/äll.yaml", "CREATE of Namespace payments"),
        ("my apps/äll.yaml", "CREATE of Pod payments/plain"),
        ("my apps/äll.yaml", "CREATE of Pod payments/pinned"),
        ("my apps/äll.yaml", "CREATE of Deployment payments/web"),
    ]
    assert [case.is_passed for case in cases] == [True, True, False, False]
    (failure,) = cases[2].result
    assert failure.type == "refused"
    assert failure.message.startswith('pod "pinned" sets spec.nodeName=n1')
    assert failure.text.startswith("my apps/äll.yaml:10: refused by node-pool: pod")
    (failure,) = cases[3].result
    assert failure.text.startswith("my apps/äll.yaml:15: refused by node-pool: every pod")


def test_junit_without_fail_on_fails_nothing(folder: Path) -> None:
    xml = junitparser.JUnitXml.fromstring(output(folder, "-o", "junit").encode())
    assert (xml.tests, xml.failures) == (4, 0)


def test_characters_that_xml_has_not_are_replaced(folder: Path) -> None:
    (folder / "äll.yaml").write_text(
        MANIFESTS.replace("nodeName: n1", 'nodeName: "n\\x01\\uFFFE\\U0001F600"')
    )
    xml = junitparser.JUnitXml.fromstring(
        output(folder, "--fail-on", "refused", "-o", "junit").encode()
    )
    (failure,) = list(next(iter(xml)))[2].result
    assert "spec.nodeName=n\ufffd\ufffd\U0001f600," in failure.message


def test_no_text_of_a_manifest_begins_a_line_of_the_xml(folder: Path) -> None:
    name = r'"n\e[2J\r\n::error::forged"'
    (folder / "äll.yaml").write_text(MANIFESTS.replace("nodeName: n1", f"nodeName: {name}"))
    xml = output(folder, "--fail-on", "refused", "-o", "junit")
    assert r"nodeName=n\x1b[2J\r\n::error::forged" in xml
    assert not [line for line in xml.splitlines() if line.startswith("::")]

"""`fairlead verify` on policies of a user: reports, differences, and what it refuses to read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import junitparser
import pytest
from click.testing import CliRunner, Result
from command_line import refused

from fairlead import verification
from fairlead.checks import laboratory
from fairlead.cli.decisions.verify import command
from fairlead.common.errors import InputError, UsageError
from fairlead.policy import cases, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

NO_HOST_NETWORK = """\
# METADATA
# title: No host network
# description: Pods do not use the network of their node.
# schemas:
#   - input: schema.admission_review
package no_host_network

# METADATA
# description: The decision of this intent.
decision := {"deny": deny, "patch": [], "warn": set()}

# METADATA
# description: Why the request is refused.
deny contains "remove spec.hostNetwork" if input.request.object.spec.hostNetwork
"""
FACTS = "requests: [{kinds: [v1/Pod], operations: [CREATE]}]\n"
CASE = """\
- name: a pod on the network of its node
  intent: no-host-network
  namespace: {name: shop}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: web}
      spec: {hostNetwork: true, containers: [{name: c, image: nginx}]}
  expect: {allowed: false, message: remove spec.hostNetwork}
"""
PLACED = """\
- name: another pool and a warning
  intent: node-pool
  namespace: {name: payments, labels: {agentpool: pool1}}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: web}
      spec: {containers: [{name: c, image: nginx}]}
  expect:
    allowed: true
    object: {spec: {nodeSelector: {agentpool: pool2}, tolerations: null, containers: null}}
    warnings: [careful]
- name: a pod on a node of its choice
  intent: node-pool
  namespace: {name: payments, labels: {agentpool: pool1}}
  request:
    operation: CREATE
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: web}
      spec: {nodeName: n1, containers: [{name: c, image: nginx}]}
  expect: {allowed: true}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A folder with one policy of a user, which only OPA can decide by."""
    module = tmp_path / "my-policies" / "no_host_network" / "no_host_network.rego"
    module.parent.mkdir(parents=True)
    module.write_text(NO_HOST_NETWORK)
    module.with_name("intent.yaml").write_text(FACTS)
    return tmp_path / "my-policies"


def written(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    path = folder / "my-cases" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def run(*arguments: str | Path, width: int | None = None) -> Result:
    env = {"COLUMNS": str(width)} if width else {}
    words = [str(argument) for argument in arguments]
    return CliRunner(env=env).invoke(command, words, standalone_mode=False, catch_exceptions=False)


def test_cases_of_a_user_run_on_policies_of_a_user(policies: Path, tmp_path: Path) -> None:
    """Engines that the policy is not written for say so, and start no cluster for it."""
    written(tmp_path, CASE, "pods/network.yml")
    options = ("--cases", tmp_path / "my-cases", "--policies", policies, "-o", "json")
    names = ("opa", "python")
    result = run(*options, *(word for name in names for word in ("--engine", name)))
    assert result.return_value == 0
    opa, python = json.loads(result.stdout)
    assert opa == {
        "case": "a pod on the network of its node",
        "intent": "no-host-network",
        "engine": "opa",
        "passed": True,
        "detail": "",
    }
    assert python["passed"] is None
    assert "engines/python.py" in python["detail"]


def test_the_folder_of_a_users_policies_may_hold_the_cases(policies: Path) -> None:
    own = policies / "no_host_network" / "cases" / "pods.yaml"
    own.parent.mkdir()
    own.write_text(CASE)
    every = cases.load(None, PolicySet.examples(Settings(), policies))
    assert {case.name: case.path for case in every}["a pod on the network of its node"] == own
    of_project = next(case for case in every if case.intent == "node-pool")
    assert of_project.settings.policies == []


def test_a_folder_with_main_rego_takes_the_place_of_the_projects(tmp_path: Path) -> None:
    copy = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), copy)
    module = copy / "replica_limits" / "replica_limits.rego"
    module.write_text(module.read_text().replace("is not within", "is far from"))
    expect = {"far": "is far from 3..10", "within": "is not within 3..10"}
    path = written(
        tmp_path,
        "".join(
            f"- name: {name}\n"
            "  intent: replica-limits\n"
            "  settings: {intents: {replica-limits: {parameters: {ranges: "
            "[{min_replicas: 3, max_replicas: 10}]}}}}\n"
            "  namespace: {name: shop}\n"
            "  request: {operation: CREATE, object: {apiVersion: apps/v1, kind: Deployment, "
            "metadata: {name: web}, spec: {replicas: 2}}}\n"
            f"  expect: {{allowed: false, message: {message!r}}}\n"
            for name, message in expect.items()
        ),
    )
    options = ("--cases", path, "--engine", "opa", "-o", "json")
    changed = json.loads(run(*options, "--policies", copy).stdout)
    assert [(each["case"], each["passed"]) for each in changed] == [
        ("far", True),
        ("within", False),
    ]
    project = json.loads(run(*options).stdout)
    assert [(each["case"], each["passed"]) for each in project] == [
        ("far", False),
        ("within", True),
    ]


@pytest.mark.parametrize("name", verification.ENGINES)
def test_every_engine_takes_the_folder_of_policies(name: str, tmp_path: Path) -> None:
    """The engine reads an intent there that is not in the project's folder."""
    copy = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), copy)
    for file in ("cel.yaml", "python.py"):
        (copy / "node_pool" / "engines" / file).unlink()
    (case,) = cases.load(written(tmp_path, PLACED))[:1]
    for folder in (None, copy):
        (engine,) = verification.load([name], PolicySet.load(Settings(), folder))
        missing = engine.inexpressible(case) is not None
        assert missing == (folder is copy and name in ("cel", "kyverno", "python"))


def test_a_failed_case_is_shown_with_the_difference_of_the_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(Path(), PLACED)
    result = run("--cases", path, "--engine", "opa", width=80)
    assert result.return_value == 1
    lines = result.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    first = lines.index("another pool and a warning", 2)
    second = lines.index("a pod on a node of its choice", first)
    assert lines[first + 1] == "failed      node-pool on opa"
    assert lines[first + 2] == "case        my-cases/cases.yaml:1"
    expected = "expected    allowed\n            warning with 'careful'\n"
    assert f"{expected}actual      allowed\n            no warnings\n" in result.stdout
    assert lines[first:second][-13:] == [
        "--- expected",
        "+++ actual",
        "@@ -3,5 +3,8 @@",
        " metadata:",
        "   name: web",
        " spec:",
        "+  containers:",
        "+  - image: nginx",
        "+    name: c",
        "   nodeSelector:",
        "-    agentpool: pool2",
        "+    agentpool: pool1",
        "",
    ]
    assert "actual      refused" in lines[second:]
    assert '            message: pod "web" sets spec.nodeName=n1, but namespace' in result.stdout
    assert lines[-1] == "2 results: 2 failed"


def test_junit_has_a_test_for_each_case_on_each_engine(policies: Path, tmp_path: Path) -> None:
    path = written(tmp_path, CASE + PLACED)
    names = ("--engine", "opa", "--engine", "python")
    result = run("--cases", path, "--policies", policies, *names, "-o", "junit")
    assert result.return_value == 1
    xml = junitparser.JUnitXml.fromstring(result.stdout.encode())
    assert (xml.tests, xml.failures, xml.errors, xml.skipped) == (6, 2, 0, 3)
    opa, python = xml
    assert (opa.name, python.name) == ("fairlead verify opa", "fairlead verify python")
    passed, failed, refused = opa
    assert (passed.classname, passed.name) == ("opa.no-host-network", passed.name)
    assert passed.is_passed
    assert (failed._elem.get("file"), failed._elem.get("line")) == (str(path), "12")
    (failure,) = failed.result
    assert failure.message == "object.spec.nodeSelector.agentpool: expected 'pool2', got 'pool1'"
    assert "-    agentpool: pool2\n+    agentpool: pool1" in failure.text
    assert "sets spec.nodeName=n1" in refused.result[0].text
    for test in python:
        assert test.is_skipped
        assert "engines/python.py" in test.result[0].message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cases.yaml: is empty"),
        ("[]\n", "cases.yaml: is an empty list: add a case"),
        ("a: 1\n", "cases.yaml:1: a list of cases is expected"),
        (CASE.replace("allowed: false", "allowed: perhaps"), "cases.yaml:11"),
        (CASE.replace("operation: CREATE", "operation: MAKE"), "cases.yaml:5"),
        (
            CASE,
            "cases.yaml:1: intent: there is no intent 'no-host-network': there are federated-",
        ),
        (
            PLACED.replace("node-pool", "node-pol"),
            "cases.yaml:1: intent: there is no intent 'node-p",
        ),
        (CASE.replace("namespace:", "namspace:"), "cases.yaml:3: unknown key 'namspace'"),
    ],
)
def test_cases_of_a_wrong_form_are_refused_with_their_place(
    text: str, words: str, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as raised:
        run("--cases", path, "--engine", "opa")
    assert str(raised.value).startswith(f"{path.parent}/{words}")
    assert raised.value.exit_code == 2


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none yet")
    with pytest.raises(InputError, match=r"holds no \*\.yaml file with cases"):
        run("--cases", tmp_path, "--engine", "opa")


def test_settings_under_which_no_intent_has_a_case_are_refused(tmp_path: Path) -> None:
    every = {case.intent: False for case in cases.load()}
    settings = tmp_path / "fairlead.yaml"
    settings.write_text(json.dumps({"intents": every}))
    with pytest.raises(UsageError, match="no intent in force has a case"):
        run("--settings", settings, "--engine", "opa")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policies", "nowhere"), "'nowhere' does not exist"),
        (("--policies", __file__), "is a file"),
        (("--engine", "oppa"), "did you mean 'opa'"),
    ],
)
def test_wrong_usage_ends_with_2(arguments: tuple[str, str], words: str) -> None:
    assert words in refused("verify", *arguments)


@pytest.mark.parametrize("arguments", [("--engine", "gatekeeper", "--cases", "a"), ("-o", "json")])
def test_a_checkout_has_its_laboratory_start_what_asks_an_api_server(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    started = []

    def start(*command: str) -> int:
        started.append(command)
        return 1

    monkeypatch.setattr(laboratory, "run", start)
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert (result.return_value, started) == (1, [("verify", *arguments)])


def test_without_a_checkout_they_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laboratory, "present", lambda: False)
    with pytest.raises(UsageError, match=r"^kyverno: .*a checkout of Fairlead"):
        command.main(["--engine", "kyverno", "--engine", "opa"], standalone_mode=False)

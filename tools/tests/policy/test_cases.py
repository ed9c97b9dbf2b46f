"""Case files: their format, and errors with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.common.errors import InputError
from fairlead.policy import cases

GOOD = """\
- name: one
  intent: node-pool
  namespace: {name: payments, labels: {agentpool: pool1}}
  request:
    operation: CREATE
    object: {apiVersion: v1, kind: Pod}
  expect: {allowed: true}
"""


def write(folder: Path, text: str, name: str = "cases.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_what_is_left_out_is_default(tmp_path: Path) -> None:
    (case,) = cases.load(write(tmp_path, GOOD))
    assert case.settings.namespace_label == "agentpool"
    assert case.namespace is not None
    assert case.namespace.state == "known"
    assert case.request.manifest == {"apiVersion": "v1", "kind": "Pod"}
    assert case.expect.warnings is None


def test_settings_are_read_as_in_their_own_file(tmp_path: Path) -> None:
    (case,) = cases.load(
        write(tmp_path, GOOD + "  settings: {nodeLabel: gke, podSelector: merge}\n")
    )
    assert case.settings.node_label == "cloud.google.com/gke-nodepool"
    assert case.settings.pod_selector == "merge"


def test_a_folder_gives_the_cases_of_its_files_in_order(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("one", "two"), "b.yaml")
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, "not a case", "readme.md")
    assert [case.name for case in cases.load(tmp_path)] == ["one", "two"]


def test_a_name_that_stands_twice_names_both_places(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    with pytest.raises(InputError, match=r"b\.yaml:1: the name 'one' is used at .*a\.yaml:1, too"):
        cases.load(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("intent:", "intend:", r":2: unknown key 'intend': did you mean 'intent'"),
        ("name: one", "name: 1", r":1: name is 1: write text"),
        (
            "labels:",
            "lables:",
            r":3: unknown key 'namespace.lables': did you mean 'labels'",
        ),
        ("pool1", "-pool1", r":3: namespace.labels.agentpool: '-pool1' is not a label value"),
        (
            "{name: payments,",
            "{name: payments, state: old,",
            r":3: namespace.state is 'old': write 'known'",
        ),
        ("CREATE", "MOVE", r":5: request.operation is 'MOVE': write "),
        ("CREATE", "UPDATE", r"UPDATE needs an oldObject"),
        ("object: {api", "oldObject: {api", r"CREATE needs an object"),
        ("object: {apiVersion: v1,", "object: {", r"object has no apiVersion"),
        (
            "object: {",
            "oldobject: {",
            r":6: unknown key 'request.oldobject': did you mean 'oldObject'",
        ),
        ("  expect: {allowed: true}\n", "", r":1: expect is missing: add it"),
        ("allowed: true", "allowed: yes please", r":7: expect.allowed is 'yes please'"),
        ("allowed: true", "allowed: true, message: x", r"an allowed request has no message"),
        ("allowed: true", "allowed: false, object: {}", r"a refused request has no object"),
        (
            "  expect:",
            "  settings: {podSelecter: merge}\n  expect:",
            r":7: unknown key 'podSelecter': did you mean",
        ),
        ("  expect:", "  settings: [merge]\n  expect:", r":7: a mapping is expected"),
        (
            "  expect:",
            "  data: [placement]\n  expect:",
            r":7: data is the list .*: write a mapping",
        ),
        ("- name", "name", r"not valid YAML|a list of cases"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=words):
        cases.load(write(tmp_path, GOOD.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("[]\n", "is an empty list"),
        ("a: b\n", ":1: a list of cases"),
        ("- one\n", ":1: a mapping is expected"),
    ],
)
def test_a_file_without_cases_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        cases.load(write(tmp_path, text))


def test_a_folder_without_cases_and_a_path_to_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no \*\.yaml"):
        cases.load(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        cases.load(tmp_path / "none.yaml")


def test_our_own_cases_cover_every_operation_state_and_setting() -> None:
    ours = cases.load()
    assert len(ours) >= 45
    assert {case.request.operation for case in ours} == {"CREATE", "UPDATE", "DELETE", "CONNECT"}
    assert {case.namespace.state for case in ours if case.namespace} == {"known", "new", "absent"}
    assert {case.settings.pod_selector for case in ours} == {"reject", "merge"}
    assert {mode for case in ours for mode in case.settings.enforcement.values()} == {
        "deny",
        "warn",
    }
    assert {bool(case.settings.pools) for case in ours} == {
        bool(case.settings.default_pool) for case in ours
    }
    assert {case.expect.allowed for case in ours} == {True, False}

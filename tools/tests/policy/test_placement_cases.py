"""Cases of placement over clusters: their format, and errors with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.policy import cases, placement_cases

GOOD = """\
- name: one
  intent: placement
  data: {placement: {clusters: {}}}
  resource: {kind: Deployment}
  expect:
    errors: {customer: [known]}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "cases.yaml"
    path.write_text(text)
    return path


def test_a_case_expects_no_clusters_unless_it_names_them(tmp_path: Path) -> None:
    (case,) = placement_cases.load(written(tmp_path, GOOD))
    assert case.data == {"placement": {"clusters": {}}}
    assert (case.resource, case.line) == ({"kind": "Deployment"}, 1)
    assert case.expect.annotations == {"replica-set-preferences": {"clusters": {}}}
    assert case.expect.errors == {"customer": ["known"]}


def test_the_data_may_be_in_a_file_beside_the_case(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("placement: {customers: {}}")
    text = GOOD.replace("{placement: {clusters: {}}}", "data.yaml")
    (case,) = placement_cases.load(written(tmp_path, text))
    assert case.data == {"placement": {"customers": {}}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("resource:", "request:", r":\d: unknown key 'request'"),
        ("errors:", "error:", r":6: unknown key 'expect.error'"),
        ("{placement: {clusters: {}}}", "nowhere.yaml", "nowhere.yaml: cannot be read"),
        ("{placement: {clusters: {}}}", "[placement]", r":3: data"),
        ("[known]", "known", r":6: expect.errors.customer"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    with pytest.raises(InputError, match=words):
        placement_cases.load(written(tmp_path, GOOD.replace(old, new, 1)))


def test_a_name_that_stands_twice_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cases\.yaml:7: the name 'one' is used at .*:1, too"):
        placement_cases.load(written(tmp_path, GOOD + GOOD))


def test_each_loader_leaves_the_cases_of_the_other_out(tmp_path: Path) -> None:
    node_pool = """\
- name: two
  intent: node-pool
  request: {operation: CREATE, object: {apiVersion: v1, kind: Pod}}
  expect: {allowed: true}
"""
    path = written(tmp_path, GOOD + node_pool)
    assert [case.name for case in placement_cases.load(path)] == ["one"]
    assert [case.name for case in cases.load(path)] == ["two"]
    assert cases.load(written(tmp_path, GOOD)) == []


def test_policies_without_placement_have_no_cases_of_ours(tmp_path: Path) -> None:
    assert placement_cases.load(folder=tmp_path) == []
    assert placement_cases.load(written(tmp_path, GOOD), tmp_path) != []


def test_our_own_cases_ask_about_the_scenario_and_for_too_many_clusters() -> None:
    ours = placement_cases.load()
    data = yaml_files.read_yaml(paths.root() / "testdata" / "placement" / "data.yaml")[0].value
    assert len([case for case in ours if case.data == data]) >= 10
    assert any(str(case.resource).count('"c') == 10_000 for case in ours)
    assert len([case for case in ours if case.expect.errors]) >= 15

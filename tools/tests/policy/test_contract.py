"""Policies of users are checked together with the project's; what is wrong is told in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairlead.common.errors import FairleadError, InputError
from fairlead.policy import new_policy, workspace
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A folder with the policy sample-policy."""
    new_policy.policy("sample-policy", tmp_path)
    return tmp_path


def change(policies: Path, old: str, new: str) -> Path:
    path = policies / "sample_policy" / "sample_policy.rego"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


DECISION = 'decision := {"deny": deny, "patch": [], "warn": set()}'


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (DECISION, "other := 1", "sample_policy.rego: has no `decision` about a request that it"),
        (DECISION, 'decision := {"deny": deny, "patch": []}', "its decision has no 'warn'"),
        (DECISION, f"{DECISION} if review.kind[1] == `Pod`", "has no `decision` about a request"),
        (
            DECISION,
            'decision := {"deny": [m | some m in deny], "patch": [], "warn": set()}',
            "decision.deny is of type array: it has to be a set of messages",
        ),
        (
            DECISION,
            'decision := {"deny": {"always"}, "patch": [], "warn": set()}',
            "decision.deny is not empty for a request that no policy has a say in",
        ),
        (DECISION, DECISION.replace("}", ', "denied": 1}'), "has an unknown key 'denied'"),
        ("object.metadata.labels", "object.spec.hostNetwrok", "hostNetwrok"),
        ("parameters.sample_policy.label", "parameters.sample_policy.lable", "lable"),
        ("package sample_policy", "package other", "package other is in the folder sample_policy"),
    ],
)
def test_what_is_wrong_is_told_with_the_original_file(
    policies: Path, old: str, new: str, words: str
) -> None:
    path = change(policies, old, new)
    with pytest.raises(FairleadError) as error:
        workspace.require_good(PolicySet.load(Settings(), policies))
    assert words in str(error.value)
    assert str(path) in str(error.value)
    assert "/fairlead-" not in str(error.value)  # the temporary folder


def test_a_decision_without_an_intent_file_is_told(policies: Path) -> None:
    (policies / "sample_policy" / "intent.yaml").unlink()
    with pytest.raises(FairleadError, match=r"has a decision, but there is no intent\.yaml beside"):
        workspace.require_good(PolicySet.load(Settings(), policies))


@pytest.mark.parametrize(
    ("written_for", "file", "words"),
    [
        ("[cel]", None, r"engines/cel\.yaml: is missing, but writtenFor in intent\.yaml names cel"),
        ("[]", "python.py", r"intent\.yaml: writtenFor: add python, because there is .*python\.py"),
    ],
)
def test_intent_file_names_the_engines_that_the_policy_is_written_for(
    policies: Path, written_for: str, file: str | None, words: str
) -> None:
    place = policies / "sample_policy"
    facts = (place / "intent.yaml").read_text()
    (place / "intent.yaml").write_text(f"{facts}writtenFor: {written_for}\n")
    if file:
        (place / "engines").mkdir()
        (place / "engines" / file).write_text("")
    with pytest.raises(FairleadError, match=words):
        workspace.require_good(PolicySet.load(Settings(), policies))


def test_an_intent_without_a_case_is_told(policies: Path) -> None:
    (policies / "sample_policy" / "cases" / "sample_policy.yaml").unlink()
    with pytest.raises(FairleadError, match="the intent sample-policy has no case: add one to"):
        workspace.require_good(PolicySet.load(Settings(), policies))


def test_a_failing_test_is_told_with_its_file(policies: Path) -> None:
    change(policies, "remove the label", "drop the label")
    with pytest.raises(FairleadError) as error:
        workspace.require_good(PolicySet.load(Settings(), policies))
    assert f"{policies}/sample_policy/sample_policy_test.rego:11" in str(error.value)


def test_a_folder_cannot_take_the_place_of_a_policy_that_is_there(policies: Path) -> None:
    (policies / "node_pool").mkdir()
    (policies / "node_pool" / "extra.rego").write_text("package node_pool\n\ndeny contains `x`\n")
    with pytest.raises(InputError, match="the policies node_pool are there already"):
        PolicySet.load(Settings(), policies)


def test_a_module_stands_in_a_folder_of_its_own(policies: Path) -> None:
    (policies / "extra.rego").write_text("package system\n")
    with pytest.raises(InputError, match="is in no folder of its own"):
        PolicySet.load(Settings(), policies)


def test_data_are_refused_but_cases_are_not(policies: Path) -> None:
    (policies / "sample_policy" / "data.yaml").write_text("a: 1\n")
    with pytest.raises(InputError, match="no deployment takes data from here"):
        PolicySet.load(Settings(), policies)


def test_custom_resources_are_typed_by_the_crds_beside_the_policy(policies: Path) -> None:
    crds = policies / "sample_policy" / "crds"
    crds.mkdir()
    (crds / "gpu.yaml").write_text(
        """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gpus.example.com}
spec:
  group: example.com
  names: {kind: Gpu, plural: gpus}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {count: {type: integer}}}}
"""
    )
    change(policies, "schema.kubernetes.core.v1.Pod", "schema.crds.example.v1.Gpu")
    workspace.require_good(PolicySet.load(Settings(), policies))
    change(policies, "object.metadata.labels[_label]", "object.spec.cuont")
    with pytest.raises(FairleadError, match=re.escape('have: "cuont"')):
        workspace.require_good(PolicySet.load(Settings(), policies))


def test_a_switched_off_intent_leaves_no_trace(policies: Path) -> None:
    settings = Settings.model_validate({"intents": {"node-pool": False}})
    policy_set = PolicySet.load(settings, policies)
    assert not [key for key in policy_set.modules if key.startswith("node_pool")]
    assert [instance.name for instance in policy_set.active] == ["sample-policy"]
    assert "node_pool" not in policy_set.modules["intents.rego"]
    workspace.require_good(policy_set)

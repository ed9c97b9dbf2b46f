"""The intents that do the same as the samples of other engines, on the objects of the samples.

The samples run in their own programs: those of API servers in
integration/tests/test_documented_policies.py, Gatekeeper's in test_documented_constraints.py there,
Kyverno's in test_documented_cluster_policy.py there where that is built, and the webhook in
test_documented_webhook.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import samples

from fairlead import verification
from fairlead.common import paths
from fairlead.policy.cases import Case

GATEKEEPER, KYVERNO, NATIVE = "replicas-gatekeeper", "replicas-kyverno", "replicas-vap"


def kind_and_replicas(case: Case) -> tuple[str, int]:
    """An object as an API server fills it in: without a number, there is one replica."""
    manifest = case.request.manifest
    return manifest["kind"], manifest["spec"].get("replicas", 1)


@pytest.mark.parametrize("name", ["opa", "python"])
@pytest.mark.parametrize("sample", [GATEKEEPER, KYVERNO, NATIVE])
def test_the_intent_beside_the_sample_decides_as_the_folders_say(sample: str, name: str) -> None:
    cases = samples.both(sample)
    (engine,) = verification.load([name])
    decided = samples.decisions(engine, cases)
    assert {case.name: decided[case.name].allowed for case in cases} == {
        case.name: case.expect.allowed for case in cases
    }
    assert all("is not within" in each.message for each in decided.values() if not each.allowed)


@pytest.mark.parametrize(
    ("sample", "lowest", "highest"), [(GATEKEEPER, 3, 10), (KYVERNO, 3, None), (NATIVE, 0, 3)]
)
def test_the_objects_are_on_both_sides_of_each_limit(
    sample: str, lowest: int, highest: int | None
) -> None:
    numbers: dict[bool, set[int]] = {True: set(), False: set()}
    for case in samples.both(sample):
        numbers[case.expect.allowed].add(kind_and_replicas(case)[1])
    assert lowest in numbers[True]
    assert not lowest or lowest - 1 in numbers[False]
    assert highest is None or (highest in numbers[True] and highest + 1 in numbers[False])


def test_the_pattern_of_the_cluster_policy_decides_as_the_folders_say() -> None:
    """Without Kyverno: the test reads the pattern, which is a comparison."""
    (policy,) = samples.manifests(f"{KYVERNO}/policy.yaml")
    assert (policy["apiVersion"], policy["kind"]) == ("kyverno.io/v1", "ClusterPolicy")
    (rule,) = policy["spec"]["rules"]
    assert rule["validate"]["failureAction"] == "Enforce"
    (resources,) = [each["resources"] for each in rule["match"]["any"]]
    (namespace,) = samples.manifests(f"{KYVERNO}/namespace.yaml")
    assert resources["namespaceSelector"]["matchLabels"] == namespace["metadata"]["labels"]
    comparison = re.fullmatch(r">(\d+)", rule["validate"]["pattern"]["spec"]["replicas"])
    assert comparison
    cases = samples.both(KYVERNO)
    kinds = {kind.rpartition("/")[2] for kind in resources["kinds"]}
    assert {kind_and_replicas(case)[0] for case in cases} == kinds
    for case in cases:
        replicas = kind_and_replicas(case)[1]
        assert (replicas > int(comparison[1])) == case.expect.allowed, case.name


def test_the_readme_lists_each_sample() -> None:
    folder: Path = paths.root() / "testdata" / "samples"
    listed = re.findall(r"^\| `([a-z-]+)` \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in folder.iterdir() if path.is_dir())

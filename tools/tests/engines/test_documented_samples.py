"""The samples of Gatekeeper and Kyverno, and the intents that do the same, on the same objects.

Their own programs do not run here; integration/tests/test_documented_policies.py runs the samples
that an API server decides by.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import samples

from fairlead import engines
from fairlead.common import paths
from fairlead.opa import cli
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
    (engine,) = engines.load([name])
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


def selected(namespace_selector: dict[str, Any], sample: str) -> bool:
    (namespace,) = samples.manifests(f"{sample}/namespace.yaml")
    labels: dict[str, str] = namespace["metadata"]["labels"]
    required: dict[str, str] = namespace_selector["matchLabels"]
    return required.items() <= labels.items()


def test_the_rego_of_the_constraint_template_decides_as_the_folders_say() -> None:
    """The Rego runs in OPA, and not in Gatekeeper, as it does there: with the object under
    `input.review`, and with the constraint's parameters.
    """
    template, constraint = samples.manifests(
        f"{GATEKEEPER}/template.yaml", f"{GATEKEEPER}/constraint.yaml"
    )
    kind = template["spec"]["crd"]["spec"]["names"]["kind"]
    assert (constraint["kind"], template["metadata"]["name"]) == (kind, kind.lower())
    assert constraint["apiVersion"].split("/")[0] == "constraints.gatekeeper.sh"
    match = constraint["spec"]["match"]
    assert selected(match["namespaceSelector"], GATEKEEPER)
    cases = samples.both(GATEKEEPER)
    kinds = {kind for group in match["kinds"] for kind in group["kinds"]}
    assert {kind_and_replicas(case)[0] for case in cases} == kinds
    (target,) = template["spec"]["targets"]
    (code,) = target["code"]
    assert (code["engine"], code["source"]["version"]) == ("Rego", "v1")
    reviews = [
        {
            "review": {"object": case.request.manifest},
            "parameters": constraint["spec"]["parameters"],
        }
        for case in cases
    ]
    violations = cli.evaluate(
        "[found | some review in data.reviews; found := data.k8sreplicalimits.violation"
        " with input as review]",
        modules={"template.rego": code["source"]["rego"]},
        data={"reviews": reviews},
    )
    assert [not each for each in violations] == [case.expect.allowed for case in cases]
    assert {'Deployment "eleven" has 11 replicas, which no range admits'} in [
        {violation["msg"] for violation in each} for each in violations
    ]


def test_the_pattern_of_the_cluster_policy_decides_as_the_folders_say() -> None:
    """Kyverno does not run here: the test reads the pattern, which is a comparison."""
    (policy,) = samples.manifests(f"{KYVERNO}/policy.yaml")
    assert (policy["apiVersion"], policy["kind"]) == ("kyverno.io/v1", "ClusterPolicy")
    (rule,) = policy["spec"]["rules"]
    assert rule["validate"]["failureAction"] == "Enforce"
    (resources,) = [each["resources"] for each in rule["match"]["any"]]
    assert selected(resources["namespaceSelector"], KYVERNO)
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

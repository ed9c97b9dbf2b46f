"""The sample for Gatekeeper in Gatekeeper's own program `gator`: what that says of each object, and
that the intent beside the sample says the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import gator
import pytest
import samples
import yaml

from fairlead import verification
from fairlead.kube import admission_reviews
from fairlead.policy.cases import Request

SAMPLE = "replicas-gatekeeper"
FOLDER = samples.FOLDER / SAMPLE


def refused_in(folder: Path) -> dict[str, list[str]]:
    names = ("template.yaml", "constraint.yaml", "namespace.yaml", "allowed", "refused")
    return gator.violations(*(folder / name for name in names))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sample, to be changed."""
    return shutil.copytree(FOLDER, tmp_path / SAMPLE)


def test_gator_and_the_intent_refuse_the_same_objects() -> None:
    cases = samples.both(SAMPLE)
    messages = refused_in(FOLDER)
    expected = {samples.title(c.request.manifest) for c in cases if not c.expect.allowed}
    assert messages.keys() == expected
    assert messages["Deployment eleven"] == [
        'Deployment "eleven" has 11 replicas, which no range admits'
    ]
    for engine in verification.load(["opa", "python"]):
        decided = samples.decisions(engine, cases)
        refused = [case for case in cases if not decided[case.name].allowed]
        assert {samples.title(case.request.manifest) for case in refused} == expected


def test_the_suite_has_every_object_and_passes() -> None:
    (suite,) = samples.manifests(f"{SAMPLE}/suite.yaml")
    (test,) = suite["tests"]
    assert {case["object"] for case in test["cases"]} == {
        str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.yaml")
    }
    done = gator.verify(FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("--- PASS") == len(test["cases"]) + 1


def test_the_suite_fails_with_another_limit(copy: Path) -> None:
    constraint = copy / "constraint.yaml"
    constraint.write_text(constraint.read_text().replace("max_replicas: 10", "max_replicas: 9"))
    done = gator.verify(copy)
    assert done.returncode == 1
    assert "--- FAIL: ten" in done.stdout


def test_gatekeeper_leaves_other_namespaces_alone(copy: Path) -> None:
    namespace = copy / "namespace.yaml"
    namespace.write_text(namespace.read_text().replace("stage: production", "stage: test"))
    assert refused_in(copy) == {}


def test_gatekeeper_refuses_an_update_that_leaves_the_number_and_the_intent_does_not(
    copy: Path,
) -> None:
    """One of the differences that the README lists."""
    (two,) = samples.manifests(f"{SAMPLE}/refused/two.yaml")
    review = admission_reviews.build(two, operation="UPDATE", old=two)
    (copy / "review.yaml").write_text(json.dumps(review))
    suite = yaml.safe_load((copy / "suite.yaml").read_text())
    suite["tests"][0]["cases"] = [
        {
            "name": "update",
            "object": "review.yaml",
            "inventory": ["namespace.yaml"],
            "assertions": [{"violations": 1, "message": "has 2 replicas"}],
        }
    ]
    (copy / "suite.yaml").write_text(yaml.safe_dump(suite))
    done = gator.verify(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    update = Request(operation="UPDATE", object=two, old_object=two)
    case = samples.case(SAMPLE, update, allowed=True, name="update")
    for engine in verification.load(["opa", "python"]):
        assert samples.decisions(engine, [case])["update"].allowed

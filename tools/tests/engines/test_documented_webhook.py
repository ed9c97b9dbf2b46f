"""The sample of a webhook written by hand in Python, and `fairlead serve` with the settings beside
it: both as running servers, to which the same reviews are sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import samples
import webhook_process
from webhook_process import Served, Webhook

from fairlead import verification
from fairlead.policy.cases import Case, Request

SAMPLE = "python-webhook"
FEW, LABEL = "is not within 2..5", 'label "{}" is missing'
ELSEWHERE = "which is not an allowed source: use an image from registry.example.com or"
REFUSED = {
    "idle": (f"replicas 0 {FEW}",),
    "unset": (f"replicas 1 {FEW}",),
    "one": (f"replicas 1 {FEW}",),
    "six": (f"replicas 6 {FEW}",),
    "unlabelled": (LABEL.format("app"), LABEL.format("team")),
    "teamless": (LABEL.format("team"),),
    "empty": ('label "app" is ""',),
    "annotated": (LABEL.format("team"),),
    "hub": (f"from docker.io/library/nginx, {ELSEWHERE}",),
    "host": (f"from registry.example.com.evil.io/web, {ELSEWHERE}",),
    "repository": (f"from ghcr.io/example-other/web, {ELSEWHERE}",),
    "init": (f"from evil.io/init, {ELSEWHERE}",),
    "everything": (f"replicas 9 {FEW}", LABEL.format("team"), f"from evil.io/web, {ELSEWHERE}"),
}
"""What the intents say of each of the refused objects."""


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """The sample itself."""
    folder = tmp_path_factory.mktemp("by-hand")
    program = samples.FOLDER / SAMPLE / "webhook.py"

    def command(port: int) -> list[str]:
        return [sys.executable, *map(str, (program, folder / "tls.crt", folder / "tls.key", port))]

    with webhook_process.running(folder, command, "/health") as webhook:
        yield webhook


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """`fairlead serve` with the settings beside the sample."""
    settings = (samples.FOLDER / SAMPLE / "fairlead.yaml").read_text()
    (namespace,) = samples.manifests(f"{SAMPLE}/namespace.yaml")
    with webhook_process.serving(tmp_path_factory.mktemp("served"), settings) as served:
        served.api.put("namespaces", namespace["metadata"]["name"])
        yield served


def response(webhook: Webhook, case: Case, version: str = "v1") -> dict[str, Any]:
    """The response to the case's review, as of the version of its API."""
    review = {**case.review(), "apiVersion": f"admission.k8s.io/{version}"}
    answer = webhook.send(review)
    body = answer.json()
    assert answer.ok
    assert (body["apiVersion"], body["kind"]) == (review["apiVersion"], review["kind"])
    given: dict[str, Any] = body["response"]
    assert given["uid"] == review["request"]["uid"]
    return given


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_sample_and_fairlead_serve_decide_alike(
    by_hand: Webhook, served: Served, version: str
) -> None:
    for case in samples.both(SAMPLE):
        allowed = [response(server, case, version)["allowed"] for server in (by_hand, served)]
        assert allowed == [case.expect.allowed] * 2, case.name


def test_fairlead_serve_says_what_the_engines_say(served: Served) -> None:
    cases = samples.both(SAMPLE)
    answers = {case.name: response(served, case) for case in cases}
    said = {
        name: answer["status"]["message"] for name, answer in answers.items() if "status" in answer
    }
    assert said.keys() == {f"refused: Deployment {name}" for name in REFUSED}
    for name, parts in REFUSED.items():
        assert [part for part in parts if part not in said[f"refused: Deployment {name}"]] == []
    for engine in verification.load(["opa", "python"]):
        decided = samples.decisions(engine, cases)
        assert {case.name: decided[case.name].allowed for case in cases} == {
            case.name: case.expect.allowed for case in cases
        }
        assert {name: each.message for name, each in decided.items() if not each.allowed} == said


def test_the_differences_are_those_of_the_readme(by_hand: Webhook, served: Served) -> None:
    """What the sample admits and the intents refuse, and the other way round."""
    one = samples.manifests(f"{SAMPLE}/refused/objects.yaml")[2]
    two = samples.manifests(f"{SAMPLE}/allowed/objects.yaml")[0]
    pod = two["spec"]["template"]["spec"]
    volume = {"name": "data", "image": {"reference": "evil.io/data"}}
    template = {**two["spec"]["template"], "spec": {**pod, "volumes": [volume]}}
    mounted = {**two, "spec": {**two["spec"], "template": template}}
    asked = {
        "an update that leaves the number": Request(operation="UPDATE", object=one, old_object=one),
        "an image volume": Request(operation="CREATE", object=mounted),
    }
    for server, expected in ((by_hand, [False, True]), (served, [True, False])):
        cases = [samples.case(SAMPLE, asked[name], allowed=True, name=name) for name in asked]
        assert [response(server, case)["allowed"] for case in cases] == expected

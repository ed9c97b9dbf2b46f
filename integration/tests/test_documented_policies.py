"""The samples of admission policies in testdata/samples, in force in a real API server: what they
inject and refuse, and that the intents beside them do the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import samples
from waits import until

from fairlead import verification
from fairlead.clusters.base import Cluster
from fairlead.engines.base import Decision
from fairlead.engines.live import marker
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.policy.cases import Case, Request
from lab.engines.live import custom_resources
from lab.engines.live.scene import Scene

pytestmark = pytest.mark.embedded("other clusters may not serve MutatingAdmissionPolicy v1")

MESH_PROXY = {
    "name": "mesh-proxy",
    "image": "mesh/proxy:v1.0.0",
    "env": [{"name": "PROXY_ROLE", "value": "sidecar"}],
    "restartPolicy": "Always",
}


@pytest.fixture(scope="module")
def rest(cluster: Cluster) -> Iterator[Objects]:
    """The API server, which serves the kinds of the samples' parameters."""
    rest = Objects(cluster.kubeconfig)
    kinds = samples.manifests("sidecar/crd.yaml", "replicas-vap/crd.yaml")
    custom_resources.serve(rest, kinds)
    yield rest
    for kind in kinds:
        rest.request("DELETE", path_of(kind, None, kind["metadata"]["name"]))


def path(manifest: Mapping[str, Any]) -> str:
    """The path of an object that is in no namespace."""
    if manifest["apiVersion"].startswith("admissionregistration.k8s.io/"):
        return path_of(manifest, None)
    return f"/apis/{manifest['apiVersion']}/{manifest['kind'].lower()}s"


@contextmanager
def in_force(rest: Objects, parameters: str, policy: str) -> Iterator[Scene]:
    """An API server that decides by the sample, and by no other one, during the block."""
    created = samples.manifests(parameters, policy)
    mutating = created[1]["kind"] == marker.MUTATING
    try:
        for manifest in created:
            answer = rest.request(
                "POST", path(manifest), manifest, query={"fieldValidation": "Strict"}
            )
            assert answer.ok, answer.message
        with marker.placed(rest, mutating=mutating, parameters=created[:1]) as is_in_force:
            yield Scene(rest, is_in_force)
    finally:
        for manifest in reversed(created):
            rest.request("DELETE", f"{path(manifest)}/{manifest['metadata']['name']}")


def until_no_longer_in_force(rest: Objects, case: Case) -> None:
    """Wait until the API server admits the case's object as it is."""
    assert case.namespace is not None
    before = case.request.manifest
    where = path_of(before, case.namespace.name)

    def unchanged() -> bool:
        answer = rest.request("POST", where, before, query={"dryRun": "All"})
        containers = answer.body.get("spec", {}).get("initContainers", [])
        expected = before["spec"].get("initContainers", [])
        return answer.ok and len(containers) == len(expected)

    until(unchanged, what="the API server no longer applies the sample")


def live(scene: Scene, asked: list[Case]) -> dict[str, Decision]:
    """The decisions of the API server, by the names of the cases."""
    outcomes = {case.name: scene.decide(case) for case in asked}
    decided = {name: each for name, each in outcomes.items() if isinstance(each, Decision)}
    assert decided == outcomes
    return decided


def init_containers(decision: Decision) -> list[dict[str, Any]]:
    containers: list[dict[str, Any]] = decision.object["spec"].get("initContainers", [])
    return containers


@pytest.mark.parametrize("policy", ["apply-configuration", "json-patch"])
def test_the_sidecar_is_injected_as_by_our_intent(rest: Objects, policy: str) -> None:
    injected = samples.creations("sidecar", "injected")
    untouched = samples.creations("sidecar", "untouched")
    with in_force(rest, "sidecar/sidecar.yaml", f"sidecar/{policy}.yaml") as scene:
        by_sample = live(scene, [*injected, *untouched])
    until_no_longer_in_force(rest, injected[0])
    for case in injected:
        own = case.request.manifest["spec"].get("initContainers", [])
        assert init_containers(by_sample[case.name]) == [*own, MESH_PROXY], case.name
    for case in untouched:
        own = case.request.manifest["spec"].get("initContainers", [])
        assert init_containers(by_sample[case.name]) == own, case.name
    for engine in verification.load(["opa", "python"]):
        for name, decision in samples.decisions(engine, [*injected, *untouched]).items():
            assert decision.allowed
            assert init_containers(decision) == init_containers(by_sample[name]), name


def scaled(replicas: int) -> Case:
    """`kubectl scale` of a Deployment with two replicas."""
    manifest = samples.manifests("replicas-vap/allowed/objects.yaml")[0]
    deployment = {
        **manifest,
        "metadata": {"name": "scaled"},
        "spec": {**manifest["spec"], "replicas": 2},
    }
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "scaled"}}
    request = Request(
        operation="UPDATE",
        sub_resource="scale",
        parent=deployment,
        old_object={**scale, "spec": {"replicas": 2}},
        object={**scale, "spec": {"replicas": replicas}},
    )
    allowed = replicas <= 3
    return samples.case("replicas-vap", request, allowed=allowed, name=f"scaled to {replicas}")


def test_replicas_are_limited_as_by_our_intent(rest: Objects) -> None:
    asked = [*samples.both("replicas-vap"), *map(scaled, (0, 3, 4))]
    expected = {case.name: case.expect.allowed for case in asked}
    with in_force(rest, "replicas-vap/limit.yaml", "replicas-vap/policy.yaml") as scene:
        by_sample = live(scene, asked)
        (limit,) = samples.manifests("replicas-vap/limit.yaml")
        four = next(case for case in asked if case.name == "scaled to 4")
        where = f"{path(limit)}/{limit['metadata']['name']}"
        present = rest.request("GET", where).body
        assert rest.request("PUT", where, {**present, "maxReplicas": 4}).ok

        def admitted() -> bool:
            return live(scene, [four])[four.name].allowed

        until(admitted, what="the API server knows the new limit")
    assert {name: decision.allowed for name, decision in by_sample.items()} == expected
    for decision in by_sample.values():
        assert decision.allowed or "at most 3 replicas are allowed here" in decision.message
    for engine in verification.load(["opa", "python"]):
        decided = samples.decisions(engine, asked)
        assert {name: decision.allowed for name, decision in decided.items()} == expected

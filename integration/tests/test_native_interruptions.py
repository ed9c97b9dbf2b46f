"""Policies that the API server enforces itself, while what deploys them is killed or works twice,
and beside a second API server: no pod is created unplaced."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from dry_runs import pod, selector, writer
from second_api_server import second_api_server
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import INTENT_LABEL, NAMESPACE, PART_OF, POLICIES
from fairlead.kube import clients
from fairlead.operations import change_steps, deploy, status
from fairlead.operations.applying import Applier
from fairlead.operations.change_steps import Change
from fairlead.operations.strategies import admission_objects, cel
from fairlead.operations.strategies.base import Operation
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["cel"]
pytestmark = pytest.mark.embedded("it starts a second API server")

ADMISSION = "admissionregistration.k8s.io/v1"
BINDINGS = ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding")
NODE_LABELS = {"agentpool": "agentpool", "gke": "cloud.google.com/gke-nodepool"}
"""Values of the setting nodeLabel, and the label that each stands for."""
Objects = clients.Objects
_numbers = itertools.count()


@pytest.fixture(scope="module")
def native(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), engine="cel", progress=Progress())


@pytest.fixture(scope="module")
def servers(
    native: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Path]]:
    """The kubeconfigs of both API servers; Fairlead knows the first."""
    second = tmp_path_factory.mktemp("second") / "kubeconfig"
    with second_api_server(native, second):
        yield [native.kubeconfig, second]


@pytest.fixture
def objects(native: EmbeddedCluster) -> Objects:
    return native.objects()


@pytest.fixture
def push(native: EmbeddedCluster, tmp_path: Path) -> Callable[[str], subprocess.Popen[str]]:
    """Starts `fairlead push` with this nodeLabel, and with policies that were never pushed."""

    def start(node_label: str) -> subprocess.Popen[str]:
        number = next(_numbers)
        settings = tmp_path / f"{number}.yaml"
        settings.write_text(f"nodeLabel: {node_label}\ncontact: '#team-{number}'\n")
        argv = [sys.executable, "-m", "fairlead", "push", "--name", native.name]
        return subprocess.Popen([*argv, "--settings", str(settings)], text=True)

    return start


def require_in_force(native: EmbeddedCluster, servers: list[Path], node_label: str) -> None:
    """Both API servers place pods by this label, and the status has no problem."""
    expected = {NODE_LABELS[node_label]: "pool1"}
    each = [Objects(server) for server in servers]
    until(
        lambda: all(selector(objects, pod("mapped")) == expected for objects in each),
        what=f"both API servers place by {node_label}",
    )
    assert status.status(native)["problems"] == []


def require_placed(selectors: list[list[object]]) -> None:
    """The pods of all writers were placed, by one of the labels."""
    legal = [{label: "pool1"} for label in NODE_LABELS.values()]
    for of_writer in selectors:
        assert of_writer
        assert [each for each in of_writer if each not in legal] == []


def test_a_push_leaves_no_pod_unplaced_at_either_api_server(
    native: EmbeddedCluster,
    servers: list[Path],
    push: Callable[[str], subprocess.Popen[str]],
) -> None:
    with ExitStack() as writing:
        selectors = [writing.enter_context(writer(server)) for server in servers]
        assert push("gke").wait() == 0
        require_in_force(native, servers, "gke")
    require_placed(selectors)


def policies(objects: Objects) -> object:
    """The names of all policies that refuse."""
    found = objects.list(ADMISSION, "ValidatingAdmissionPolicy", None)
    return {each["metadata"]["name"] for each in found}


def config_map(objects: Objects) -> object:
    """What the cluster records as the policies in force."""
    return (objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}).get("data")


def binding(objects: Objects) -> object:
    """The policy that a binding puts in force."""
    found = objects.get(ADMISSION, "MutatingAdmissionPolicyBinding", "fairlead.node-pool")
    return found and found["spec"]["policyName"]


@pytest.mark.parametrize(
    ("seen", "node_label"), [(policies, "agentpool"), (config_map, "gke"), (binding, "agentpool")]
)
def test_a_push_that_is_killed_leaves_no_pod_unplaced_and_can_be_repeated(
    native: EmbeddedCluster,
    servers: list[Path],
    push: Callable[[str], subprocess.Popen[str]],
    objects: Objects,
    seen: Callable[[Objects], object],
    node_label: str,
) -> None:
    """It is killed as soon as it has changed what is `seen`."""
    before = seen(objects)
    with ExitStack() as writing:
        selectors = [writing.enter_context(writer(server)) for server in servers]
        process = push(node_label)
        try:
            until(
                lambda: seen(objects) != before,
                what="the push changes it",
                pause=0.01,
            )
        finally:
            process.kill()
            process.wait()
        assert push(node_label).wait() == 0
        require_in_force(native, servers, node_label)
    require_placed(selectors)


class HeldUp(Applier):
    """Holds the first binding of an intent up until `meanwhile` has ended."""

    def __init__(self, objects: Objects, meanwhile: Callable[[], None]) -> None:
        super().__init__(objects)
        self._meanwhile: Callable[[], None] | None = meanwhile

    def apply(self, manifest: Mapping[str, Any]) -> None:
        of_intent = INTENT_LABEL in manifest["metadata"].get("labels", {})
        if manifest["kind"] in BINDINGS and of_intent and self._meanwhile:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        super().apply(manifest)


def test_a_push_that_another_overtakes_leaves_the_policies_of_that(
    native: EmbeddedCluster,
    servers: list[Path],
    push: Callable[[str], subprocess.Popen[str]],
    objects: Objects,
) -> None:
    def overtake() -> None:
        assert push("gke").wait() == 0

    settings = Settings.model_validate({"nodeLabel": "agentpool", "contact": "#team-late"})
    applier = HeldUp(objects, overtake)
    with ExitStack() as stack:
        operation = Operation(native, objects, applier, stack, Progress())
        late = cel.rendered(PolicySet.load(settings))
        overtaken = "somebody else changed the policies at the same time"
        with pytest.raises(FairleadError, match=overtaken):
            change_steps.bring(operation, cel.Cel(operation), late, None, Change("push"))
    require_in_force(native, servers, "gke")
    of_late = {each["metadata"]["name"] for each in admission_objects.prepared(late.objects)}
    bound = {
        each["spec"]["policyName"]
        for kind in BINDINGS
        for each in objects.list(ADMISSION, kind, None, f"{PART_OF}=fairlead")
    }
    assert bound & of_late == set()


def test_of_two_pushes_at_once_each_leaves_all_pods_placed(
    native: EmbeddedCluster,
    servers: list[Path],
    push: Callable[[str], subprocess.Popen[str]],
    objects: Objects,
) -> None:
    with ExitStack() as writing:
        selectors = [writing.enter_context(writer(server)) for server in servers]
        for process in [push(node_label) for node_label in NODE_LABELS]:
            assert process.wait() in (0, 1)
        assert push("agentpool").wait() == 0
        require_in_force(native, servers, "agentpool")
    require_placed(selectors)
    recorded = json.dumps(config_map(objects))
    assert "gke-nodepool" not in recorded

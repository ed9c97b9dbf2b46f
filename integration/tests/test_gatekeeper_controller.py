"""What `fairlead render --engine gatekeeper` gives, in Gatekeeper's own programs: every conformance
case in its controller, which a real API server asks, and the samples of the policies in `gator`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gator
import pytest
import samples
import yaml

from fairlead import engines
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from fairlead.policy import cases, fairlead_yaml
from fairlead.policy.instances import NAME_LABEL
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import IntentSettings, Settings
from fairlead.settings.selectors import Selector
from fairlead.verification.verify import verify
from lab import targets
from lab.engines.gatekeeper import GatekeeperEngine, controller
from lab.engines.gatekeeper.in_force import InForce
from lab.engines.live import clusters

POLICIES = paths.root() / "policies"
REFUSING = (
    *("image_sources", "replica_limits", "required_labels"),
    *("resource_limits", "run_as_user"),
)


@pytest.mark.lab
@pytest.mark.skipif(
    targets.of_environment().kind != "embedded", reason="the engine starts its own cluster"
)
def test_every_case_holds_in_gatekeeper() -> None:
    every = cases.load(None)
    results = verify(every, [GatekeeperEngine()], Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    mutating = ("federated-placement", "node-pool", "sidecar-injection")
    assert [r.case for r in results if r.intent not in mutating and r.passed is not True] == []
    passed = Counter(result.intent for result in results if result.passed)
    assert passed["node-pool"] >= 140
    assert passed["sidecar-injection"] >= 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[BareCluster]:
    """A cluster whose API server asks Gatekeeper, with a namespace of the pool `gpu`."""
    with clusters.bare(Progress()) as bare:
        rest = clusters.api(bare)
        controller.serve_definitions(rest, Progress())
        controller.start(bare, rest, Progress())
        metadata = {"name": "mapped", "labels": {"agentpool": "gpu"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        assert rest.request("POST", "/api/v1/namespaces", namespace).ok
        rest.request("POST", "/api/v1/namespaces/mapped/serviceaccounts", account)
        yield bare


def created(rest: Objects, name: str, **spec: Any) -> Response:
    """The answer to the creation of a pod."""
    containers = [{"name": "c", "image": "i"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }
    user = {"username": "alice", "groups": [controller.GROUP]}
    return rest.request("POST", "/api/v1/namespaces/mapped/pods", pod, user=user)


@pytest.mark.embedded("it has a cluster of its own")
def test_no_pod_is_created_unplaced(cluster: BareCluster) -> None:
    rest = clusters.api(cluster)
    settings = Settings.model_validate({"pools": {"gpu": {"nodeSelector": {"hardware": "gpu"}}}})
    rendered = engines.render("gatekeeper", PolicySet.load(settings))
    in_force = InForce(rest)
    in_force.put(rendered)
    answer = created(rest, "placed")
    assert answer.ok, answer.message
    assert answer.body["spec"]["nodeSelector"] == {"hardware": "gpu"}
    refused = created(rest, "own", nodeSelector={"hardware": "cheap"})
    assert refused.status == 403
    assert refused.message.startswith('[fairlead.node-pool] pod "own" sets spec.nodeSelector')
    # The mutators are gone, or a later webhook removed what they had added.
    in_force.put(each for each in rendered if not each["apiVersion"].startswith("mutations."))
    refused = created(rest, "unplaced")
    assert refused.status == 403
    assert "lacks what node-pool adds to it" in refused.message
    in_force.put(rendered)
    assert created(rest, "again").ok
    cluster.stop_server(controller.PROGRAM)
    refused = created(rest, "unasked")
    assert not refused.ok
    assert "failed calling webhook" in refused.message


def messages(folder: Path, settings: Settings, objects: Path) -> dict[str, list[str]]:
    """What `gator test` says of each object, by its kind and name."""
    manifest = folder / "manifests.yaml"
    manifest.write_text(manifests.to_yaml(engines.render("gatekeeper", PolicySet.load(settings))))
    given = list(yaml.safe_load_all(objects.read_text()))
    spaces = {each["metadata"].get("namespace") for each in given} - {None}
    labelled = {"team": "shop", "stage": "test", "cost-center": "cc-1234"}
    namespaces: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {**labelled, NAME_LABEL: name}},
        }
        for name in sorted(spaces - {each["metadata"]["name"] for each in given})
    ]
    (folder / "namespaces.yaml").write_text(yaml.safe_dump_all(namespaces))
    return gator.violations(folder, objects)


@pytest.mark.parametrize("policy", REFUSING)
def test_gator_refuses_the_samples_that_each_policy_refuses(tmp_path: Path, policy: str) -> None:
    examples = POLICIES / policy / "samples"
    loaded = fairlead_yaml.load(examples / "fairlead.yaml")
    # gator gives policies no labels of namespaces, so no instance selects by them.
    intents = {
        name: chosen.model_copy(update={"namespaces": Selector()})
        if any(expression.key != NAME_LABEL for expression in chosen.namespaces.expressions)
        else chosen
        for name, chosen in loaded.intents.items()
    }
    off = {"node-pool": IntentSettings(enabled=False)}
    settings = loaded.model_copy(update={"intents": {**intents, **off}})
    folders = {kind: tmp_path / kind for kind in ("allowed", "refused")}
    for folder in folders.values():
        folder.mkdir()
    assert messages(folders["allowed"], settings, examples / "allowed" / "objects.yaml") == {}
    refused = examples / "refused" / "objects.yaml"
    said = messages(folders["refused"], settings, refused)
    every = yaml.safe_load_all(refused.read_text())
    assert sorted(said) == sorted(map(samples.title, every))

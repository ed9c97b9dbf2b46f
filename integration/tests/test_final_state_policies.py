"""With `finalState: policy`, API servers ask OPA once, and check the final state themselves. One of
the two checks always holds, whatever changes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dry_runs import pod, selector
from other_webhook import CHANGES, SETTINGS, VERSION, Create, refused, running
from told_warnings import Warnings
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import (
    FINAL_STATE_ANNOTATION,
    IN_PLACE_ANNOTATION,
    NAMESPACE,
    POLICIES,
)
from fairlead.engines import enforcement
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import uninstall
from fairlead.policy import bundles
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("the API server has to reach webhooks of this process")

QUIET = Progress()
BY_POLICY = SETTINGS.model_copy(update={"final_state": "policy"})
OTHER_LABEL = BY_POLICY.model_copy(update={"node_label": "example.com/pool"})
POLICY = "fairlead-node-pool-final-state"
CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": POLICIES, "namespace": NAMESPACE},
}
UNDONE = f"'{POLICY}' with binding '{POLICY}' denied request: another webhook has undone"
REFUSALS = {
    "removes the nodeSelector": UNDONE,
    "removes the tolerations": UNDONE,
    "changes the nodeSelector": rf"'{POLICY}' denied request: .*places its pods in pool \"pool1\"",
    "sets a nodeName": rf"'{POLICY}' denied request: .*sets spec.nodeName=pool2-0",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedCluster]:
    with enforcement.started(
        f"final-{os.getpid()}",
        BY_POLICY,
        {"pool1": 1, "pool2": 1},
        engine="opa",
        progress=QUIET,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def objects(shared: EmbeddedCluster) -> clients.Objects:
    return shared.objects()


@pytest.fixture(scope="module")
def create(objects: clients.Objects, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Create]:
    with running(objects, tmp_path_factory.mktemp("other")) as create:
        yield create


def webhooks(objects: clients.Objects) -> list[str]:
    configuration = objects.get(VERSION, "ValidatingWebhookConfiguration", "fairlead") or {}
    return [webhook["name"] for webhook in configuration.get("webhooks") or ()]


def checked(cluster: EmbeddedCluster) -> str:
    """What checks the final state of pods, once nothing is wrong with the deployment."""

    def sound() -> dict[str, Any] | None:
        status = enforcement.status(cluster)
        return None if status["problems"] else status

    # On a busy machine, the sidecar may be seconds behind.
    status = until(sound, what="nothing is wrong with the deployment")
    (node_pool,) = status["intents"]
    return str(node_pool["finalState"])


@pytest.mark.parametrize("change", CHANGES)
def test_what_another_webhook_makes_of_a_placed_pod_is_refused(create: Create, change: str) -> None:
    with pytest.raises(Refused, match=REFUSALS[change]) as no:
        create(change)
    assert no.value.status == 403


def test_opa_is_asked_once(shared: EmbeddedCluster, objects: clients.Objects) -> None:
    assert webhooks(objects) == ["workloads.node-pool.fairlead.dev"]
    assert checked(shared) == "policy"
    planned = enforcement.plan(shared, BY_POLICY, progress=QUIET)
    assert {outcome.action for outcome in planned} == {"unchanged"}


def test_a_disabled_intent_is_not_checked_either(shared: EmbeddedCluster, create: Create) -> None:
    change = "removes the tolerations"  # what an unplaced pod has, too
    enforcement.disable(shared, None, "a test")
    until(lambda: refused(create, change) is None, what="an unplaced pod gets through")
    enforcement.deploy(shared, BY_POLICY, progress=QUIET)  # leaves it disabled
    assert refused(create, change) is None
    enforcement.enable(shared, None)
    until(
        lambda: all(refused(create, change) for change in CHANGES),
        what="the final state is checked again",
    )
    assert checked(shared) == "policy"


def test_a_binding_that_somebody_removed_shows_and_comes_back(
    shared: EmbeddedCluster, objects: clients.Objects, create: Create
) -> None:
    kind = "ValidatingAdmissionPolicyBinding"
    objects.delete(VERSION, kind, POLICY)
    until(lambda: refused(create, "sets a nodeName") is None, what="nothing checks the final state")
    assert any(
        problem.startswith(f"{kind} {POLICY} is missing")
        for problem in enforcement.status(shared)["problems"]
    )
    damaged = {"metadata": {"annotations": {FINAL_STATE_ANNOTATION: "no policies"}}}
    objects.merge(CONFIG_MAP, damaged)
    enforcement.deploy(shared, BY_POLICY, progress=QUIET)
    until(lambda: refused(create, "sets a nodeName"), what="the final state is checked again")
    assert checked(shared) == "policy"


def test_each_pod_is_placed_by_one_revision_while_another_comes_and_goes(
    shared: EmbeddedCluster, objects: clients.Objects, create: Create
) -> None:
    metadata = {"name": "second", "labels": {"agentpool": "pool2"}}
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    old, new = {"agentpool": "pool2"}, {"example.com/pool": "pool2"}
    until(lambda: selector(objects, pod("second")) == old, what="the namespace is known")
    ended, seen = threading.Event(), list[Any]()

    def write() -> None:
        own = clients.Objects(shared.kubeconfig)
        while not ended.wait(0.05):
            try:
                seen.append(selector(own, pod("second")))
            except Refused as error:
                seen.append(str(error))

    # As if a change had been interrupted, which has left the policies without a record of them.
    objects.merge(CONFIG_MAP, {"metadata": {"annotations": {IN_PLACE_ANNOTATION: None}}})
    problems = " ".join(enforcement.status(shared)["problems"])
    assert "webhooks check the final state for node-pool, and no admission policies" in problems
    writer = threading.Thread(target=write)
    writer.start()
    try:
        pushed = enforcement.push(shared, OTHER_LABEL, progress=QUIET)
        assert selector(objects, pod("second")) == new
        assert checked(shared) == "policy"
        restored = enforcement.rollback(shared, None, progress=QUIET)
        assert selector(objects, pod("second")) == old
        assert checked(shared) == "policy"
    finally:
        ended.set()
        writer.join()
    assert (pushed["warnings"], restored["warnings"]) == ([], [])
    # A policy of one revision never judges what the other one has placed.
    placed = [each for each in seen if not isinstance(each, str)]
    assert old in placed
    assert new in placed
    assert all(each in (old, new) for each in placed)
    assert [each for each in seen if POLICY in str(each)] == []
    assert refused(create, "sets a nodeName")


def test_where_nothing_may_be_refused_webhooks_stay(
    shared: EmbeddedCluster, objects: clients.Objects, create: Create
) -> None:
    enforcement.deploy(
        shared, BY_POLICY.model_copy(update={"enforcement": {"*": "warn"}}), progress=QUIET
    )
    assert checked(shared) == "webhook"
    until(
        lambda: all(refused(create, change) is None for change in CHANGES),
        what="pods get through whatever another webhook makes of them",
    )
    assert "final-state.node-pool.fairlead.dev" in webhooks(objects)
    assert objects.get(VERSION, "ValidatingAdmissionPolicy", POLICY) is None


def test_where_the_api_server_does_not_accept_the_policy_the_webhook_stays(
    shared: EmbeddedCluster, objects: clients.Objects, create: Create, tmp_path: Path
) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(bundles.folder(), folder)
    definition = folder / "node_pool" / "engines" / "cel.yaml"
    known = "expression: request.kind.kind == 'Pod'\n"
    assert definition.read_text().count(known) == 1
    definition.write_text(
        definition.read_text().replace(known, known.replace("'Pod'", "string.ofTheFuture()"))
    )
    warnings = Warnings()
    enforcement.deploy(shared, BY_POLICY, folder, progress=warnings)
    (warning,) = warnings.texts
    assert warning.startswith("finalState: a webhook checks the final state for node-pool, and no")
    assert "the API server does not accept it" in warning
    assert "ofTheFuture" in warning
    assert checked(shared) == "webhook"
    assert "final-state.node-pool.fairlead.dev" in webhooks(objects)
    assert objects.get(VERSION, "ValidatingAdmissionPolicy", POLICY) is None
    until(
        lambda: all(refused(create, change) for change in CHANGES),
        what="the webhook checks the final state",
    )


def test_uninstall_leaves_no_policy(shared: EmbeddedCluster, objects: clients.Objects) -> None:
    enforcement.deploy(shared, BY_POLICY, progress=QUIET)
    assert objects.get(VERSION, "ValidatingAdmissionPolicyBinding", POLICY)
    uninstall.uninstall(shared, progress=QUIET)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert objects.list(VERSION, kind, None) == []


def test_settings_of_a_cluster_name_the_choice_only_if_it_is_made() -> None:
    assert "finalState" not in Settings().deployed_document()
    assert BY_POLICY.deployed_document()["finalState"] == "policy"

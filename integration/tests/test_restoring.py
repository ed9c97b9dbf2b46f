"""What is deleted or removed of a deployment comes back by itself, and what others set stays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from applied import fairlead_manifest, until_settings_are_in_force
from suspension import suspended, unprobed, without_controller
from waits import until

from fairlead.clusters import webhook_connections
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.controller.restoring import Restoring
from fairlead.deployment.names import (
    CERTIFICATE_LEASE,
    LIFECYCLE_LEASE,
    NAMESPACE,
    OBJECTS_WEBHOOK,
    POLICIES,
    TLS_SECRET,
    TOKEN_SECRET,
    WEBHOOKS,
)
from fairlead.keeper.lease import Lease
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import NAME, VERSION
from fairlead.operations import deploy, disable, drift, object_comparison, rotate, uninstall
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it stops the controller")

QUIET = Progress()
Object = dict[str, Any]
MUTATING = drift.ADMISSION, "MutatingWebhookConfiguration", WEBHOOKS
VALIDATING = drift.ADMISSION, "ValidatingWebhookConfiguration", WEBHOOKS
GUARD = "fairlead-pool-label"
DELETED = [
    MUTATING,
    VALIDATING,
    (drift.ADMISSION, "ValidatingWebhookConfiguration", OBJECTS_WEBHOOK),
    (drift.ADMISSION, "ValidatingAdmissionPolicy", GUARD),
    (drift.ADMISSION, "ValidatingAdmissionPolicyBinding", GUARD),
    ("v1", "ConfigMap", POLICIES, NAMESPACE),
    ("v1", "Secret", TOKEN_SECRET, NAMESPACE),
    ("v1", "Secret", TLS_SECRET, NAMESPACE),
]


@pytest.fixture(autouse=True)
def fairlead(cluster: EmbeddedCluster, objects: clients.Objects) -> Iterator[None]:
    """The settings are an object during the test. In the end, what files say is in force."""
    objects.apply(fairlead_manifest(contact="#ours"))
    until_settings_are_in_force(objects)
    yield
    with contextlib.suppress(Refused):  # the kind is gone, too
        objects.delete(VERSION, "Fairlead", NAME)
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)


@pytest.fixture
def restoring(cluster: EmbeddedCluster) -> Iterator[Restoring]:
    """What the controller does, which itself is suspended while it holds no Lease."""
    with without_controller(cluster):
        yield Restoring(cluster.kubeconfig, lambda: cluster, replica="test")


@pytest.fixture
def refused(
    objects: clients.Objects, new_namespace: Callable[..., str], pod: Callable[..., Object]
) -> Callable[[], str]:
    """Creates, as a dry run, a pod with a nodeSelector of its own. Returns why it is refused, or
    nothing.
    """
    at = new_namespace(agentpool="pool1")

    def outcome() -> str:
        try:
            objects.apply(pod(at, nodeSelector={"agentpool": "pool2"}), dry_run=True)
        except Refused as error:
            return str(error)
        return ""

    return outcome


def content(objects: clients.Objects, key: tuple[str, ...]) -> Object | None:
    """The content of an object, without the CAs of webhooks: these may have comments (see
    webhook_connections), which a webhook that comes back need not have.
    """
    live = objects.get(*key)
    for webhook in (live or {}).get("webhooks", ()):
        assert webhook["clientConfig"].pop("caBundle")
    return object_comparison.content(live) if live else None


def reported(objects: clients.Objects, reason: str) -> list[str]:
    """The messages of the Events of Fairlead with this reason."""
    return [
        event["message"]
        for event in objects.list("v1", "Event", NAMESPACE)
        if (event["reason"], event["involvedObject"]["kind"]) == (reason, "Fairlead")
    ]


def test_what_is_deleted_comes_back(objects: clients.Objects, refused: Callable[[], str]) -> None:
    assert "pool2" in refused()
    for key in DELETED:
        before = content(objects, key)
        assert before, key
        objects.delete(*key)
        until(lambda key=key: objects.get(*key), what=f"{key} is back")  # type: ignore[misc]
        assert content(objects, key) == before
    before_all = {key: content(objects, key) for key in DELETED}
    lease = ("coordination.k8s.io/v1", "Lease", CERTIFICATE_LEASE, NAMESPACE)
    for key in (*DELETED, lease):
        objects.delete(*key)
    until(
        lambda: {key: content(objects, key) for key in DELETED} == before_all,
        what="all of them are back",
    )
    assert objects.get(*lease)
    until(lambda: "pool2" in refused(), what="pods are refused again")
    expected = f"ConfigMap {POLICIES} was missing, and is back"
    assert expected in reported(objects, "Restored")


def test_what_is_disabled_comes_back_disabled(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    refused: Callable[[], str],
    restoring: Restoring,
) -> None:
    disable.disable(cluster, None, "a test")
    assert refused() == ""
    restoring.look()
    before = {key: content(objects, key) for key in (MUTATING, VALIDATING)}
    records = disable.read(objects).records
    for key in before:
        objects.delete(*key)
    restoring.look()
    assert {key: content(objects, key) for key in before} == before
    assert disable.read(objects).records == records
    assert refused() == ""
    assert disable.enable(cluster, None)["changed"]
    until(refused, what="pods are refused again")


def test_what_is_removed_comes_back_and_what_others_set_stays_and_is_reported(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    someone = clients.Objects(cluster.kubeconfig, field_manager="someone")

    def webhooks() -> dict[str, Object]:
        live = content(objects, VALIDATING) or {}
        return {webhook["name"]: webhook for webhook in live.get("webhooks") or ()}

    webhook_connections.renew(objects, datetime.now(UTC))
    before, (*names, last) = webhooks(), webhooks()
    identity = {"apiVersion": VALIDATING[0], "kind": VALIDATING[1], "metadata": {"name": WEBHOOKS}}
    someone.patch(identity, [{"op": "remove", "path": f"/webhooks/{len(names)}"}])
    until(lambda: webhooks() == before, what=f"{last} is back")
    ignoring = {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}
    someone.patch(identity, [ignoring])
    sentence = f"ValidatingWebhookConfiguration {WEBHOOKS} differs in webhooks[{names[0]}]."
    until(
        lambda: [
            message
            for message in reported(objects, "Changed")
            if message.startswith(sentence) and "as someone may want it" in message
        ],
        what="the change is reported",
    )
    assert webhooks()[names[0]]["failurePolicy"] == "Ignore"


def test_a_token_that_was_rotated_meanwhile_stays_away(
    cluster: EmbeddedCluster, objects: clients.Objects, restoring: Restoring
) -> None:
    restoring.look()
    with rotate.alone(cluster) as deployed:
        rotate.here(cluster, deployed, "token", progress=QUIET)
    key = "v1", "Secret", TOKEN_SECRET, NAMESPACE
    rotated = objects.get(*key)
    assert rotated
    objects.delete(*key)
    restoring.look()
    assert objects.get(*key) is None
    assert any("refuses the token that it had" in each for each in reported(objects, "Changed"))
    metadata = {"name": TOKEN_SECRET, "namespace": NAMESPACE}
    objects.apply({**rotated, "metadata": metadata})
    restoring.look()
    objects.delete(*key)
    restoring.look()
    assert (objects.get(*key) or {}).get("data") == rotated["data"]


def test_a_secret_that_the_controller_has_never_seen_is_reported(
    objects: clients.Objects, restoring: Restoring
) -> None:
    secret = objects.get("v1", "Secret", TOKEN_SECRET, NAMESPACE)
    assert secret
    objects.delete("v1", "Secret", TOKEN_SECRET, NAMESPACE)
    with pytest.raises(FairleadError, match="has never seen it: run `fairlead deploy`"):
        restoring.look()
    secret["metadata"] = {"name": TOKEN_SECRET, "namespace": NAMESPACE}
    objects.apply(secret)
    restoring.look()


def test_nothing_comes_back_while_somebody_else_is_at_work(
    objects: clients.Objects, restoring: Restoring
) -> None:
    restoring.look()
    objects.delete(*VALIDATING)
    for name in (LIFECYCLE_LEASE, CERTIFICATE_LEASE):
        with Lease(objects, "somebody", name=name).held():
            restoring.look()
            assert objects.get(*VALIDATING) is None
    restoring.look()
    assert objects.get(*VALIDATING)


def test_webhooks_stay_away_while_no_opa_serves_what_is_deployed(
    objects: clients.Objects, cluster: EmbeddedCluster, restoring: Restoring
) -> None:
    restoring.look()
    objects.delete(*MUTATING)
    objects.delete(drift.ADMISSION, "ValidatingAdmissionPolicy", GUARD)
    with contextlib.ExitStack() as stack:
        for opa in cluster.opas():
            stack.enter_context(unprobed(f"{opa.url}/health"))
            stack.enter_context(suspended(opa.pid))
        restoring.look()
        assert objects.get(*MUTATING) is None
        assert objects.get(drift.ADMISSION, "ValidatingAdmissionPolicy", GUARD)

    def back() -> Object | None:
        restoring.look()
        return objects.get(*MUTATING)

    until(back, what="an OPA is Ready, and the webhook is back")


def test_nothing_comes_back_after_an_uninstall(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    removed = uninstall.uninstall(cluster, progress=QUIET).objects
    assert removed[0]["kind"] == "Fairlead"
    for key in (*DELETED, ("v1", "Namespace", NAMESPACE)):
        assert objects.get(*key) is None

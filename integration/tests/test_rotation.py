"""Token and certificate are replaced while pods are created, and no pod is refused."""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.digests import digest
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import LOOPBACK, SERVICE_NAMES, Tls
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaRefused
from fairlead.operations import deploy, deployed_state, rotate, status
from fairlead.pki import certificates
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

Make = Callable[..., Any]
ROLL_OUT = timedelta(minutes=2)
"""The validity of a certificate with which pods can still start."""


@pytest.fixture
def load(cluster: Cluster, namespace: Make, pod: Make) -> Callable[[], Any]:
    """Creates pods in a mapped namespace continuously and deletes each at once. Returns their
    number and the failed ones.
    """

    @contextmanager
    def running() -> Iterator[dict[str, list[str]]]:
        at, numbers, stop = namespace(agentpool="pool1"), itertools.count(), threading.Event()
        outcome: dict[str, list[str]] = {"placed": [], "failed": []}

        def create() -> None:
            objects = cluster.objects()
            while not stop.is_set():
                name = f"p{next(numbers)}"
                try:
                    created = objects.create(pod(at, name))
                except Refused as error:
                    outcome["failed"].append(str(error))
                    continue
                placed = created["spec"].get("nodeSelector") == {"agentpool": "pool1"}
                outcome["placed" if placed else "failed"].append(name)
                objects.delete("v1", "Pod", name, at)

        with ThreadPoolExecutor(2) as executor:
            working = [executor.submit(create) for _ in range(2)]
            try:
                yield outcome
            finally:
                stop.set()
            for future in working:
                future.result()

    return running


def test_a_rotated_token_refuses_no_pod_and_the_old_one_is_refused(
    cluster: Cluster, objects: clients.Objects, load: Callable[[], Any]
) -> None:
    old = deployed_state.credentials(objects)
    assert old is not None
    with load() as outcome:
        result = rotate.token(cluster, progress=Progress())
    new = deployed_state.credentials(objects)
    assert new is not None
    assert new.token != old.token
    assert digest(new.token.encode()) == result["digest"]
    assert outcome["failed"] == []
    assert outcome["placed"]
    for server in cluster.opas():
        with pytest.raises(OpaRefused):
            OpaApi(server.url, ca=server.ca, token=old.token).policies()
        assert OpaApi(server.url, ca=server.ca, token=new.token).policies()


def test_a_rotated_certificate_refuses_no_pod_and_the_old_authority_is_trusted_no_more(
    cluster: Cluster, objects: clients.Objects, load: Callable[[], Any]
) -> None:
    old = deployed_state.credentials(objects)
    assert old is not None
    with load() as outcome:
        rotate.certificate(cluster, progress=Progress())
    new = deployed_state.credentials(objects)
    assert new is not None
    assert outcome["failed"] == []
    assert outcome["placed"]
    assert old.ca not in new.ca
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        webhook = objects.get("admissionregistration.k8s.io/v1", kind, "fairlead") or {}
        bundles = {base64.b64decode(w["clientConfig"]["caBundle"]) for w in webhook["webhooks"]}
        # After a roll-out a comment follows: see fairlead.clusters.webhook_connections.
        assert {bundle.partition(b"# ")[0] for bundle in bundles} == {new.ca}
    assert all(deployed_state.served(opa, new.token).ready for opa in cluster.opas())
    secret = objects.get("v1", "Secret", "opa-tls", NAMESPACE) or {}
    assert base64.b64decode(secret["data"]["tls.crt"]) == new.certificate


@pytest.mark.parametrize(
    "left", [timedelta(days=10), timedelta(seconds=-1)], ids=["about to end", "ended"]
)
def test_a_deployment_replaces_a_certificate_that_ends(
    cluster: Cluster,
    settings: Settings,
    objects: clients.Objects,
    namespace: Make,
    pod: Make,
    left: timedelta,
) -> None:
    old = deployed_state.credentials(objects)
    assert old is not None
    at = namespace(agentpool="pool1")
    # What reads its files once gets them by new pods, and none comes up with a certificate that has
    # ended.
    valid = left if cluster.sidecar.rereads else max(left, ROLL_OUT)
    ca = certificates.CA.create("short", valid)
    pair = ca.issue("opa", dns=SERVICE_NAMES, ips=LOOPBACK, server=True, valid=valid)
    ends = datetime.now(UTC) + valid
    ending = Tls(pair.cert_pem, pair.key_pem, ca.cert_pem)
    with rotate.alone(cluster) as deployed:  # else a sidecar would renew it before it is seen
        deployed.publish(ending)
        cluster.refresh({"opa-tls": ending.files})
        deployed.trust(ending.ca)
        assert all(c["warning"] for c in status.status(cluster)["certificates"])
        if left < timedelta(0):
            waiting.until(
                lambda: datetime.now(UTC) > ends,
                deadline=ROLL_OUT.total_seconds(),
                what="it has ended",
            )
    deploy.deploy(cluster, PolicySet.load(settings), progress=Progress())
    assert not any(c["warning"] for c in status.status(cluster)["certificates"])
    new = deployed_state.credentials(objects)
    assert new is not None
    assert new.token == old.token
    created = until(lambda: objects.create(pod(at)), what="pods are placed again")
    assert created["spec"]["nodeSelector"] == {"agentpool": "pool1"}

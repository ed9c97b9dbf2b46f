"""With `certificates: cert-manager` another controller issues the certificate, and none of our
components has its key.

cert-manager itself does not run here. Its resource definitions do, so that API servers validate the
manifests, and the test does by hand what its controllers do.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import left_out
import pytest
import yaml
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.operations import deploy, deployed_state, rotate, status
from fairlead.operations.up import started
from fairlead.pki.certificates import CA
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it brings cluster-wide definitions")

QUIET = Progress()
SETTINGS = Settings.model_validate({"certificates": "cert-manager"})
MODULE = "github.com/cert-manager/cert-manager@v1.21.2"
SUM = "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="
ADMISSION = "admissionregistration.k8s.io/v1"
ROOT_CA = CA.create("fairlead-opa", timedelta(days=3650))
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def definitions() -> list[dict[str, Any]]:
    """The resource definitions of cert-manager's Issuer and Certificate, from its Go module."""
    go = shutil.which("go")
    if go is None:
        left_out.skip("Go", "it fetches cert-manager's definitions")
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd="/",
    )
    module = json.loads(done.stdout or "{}")
    if done.returncode or module.get("Error"):
        left_out.skip(MODULE, f"it is not available: {module.get('Error') or done.stderr}")
    assert module["Sum"] == SUM
    folder = Path(module["Dir"]) / "deploy" / "crds"
    return [
        yaml.safe_load((folder / f"cert-manager.io_{name}.yaml").read_text(encoding="utf-8"))
        for name in ("issuers", "certificates")
    ]


class CertManager:
    """A fake of its two controllers: it issues a Certificate and injects its CA."""

    def __init__(self, cluster: EmbeddedCluster, ca: CA) -> None:
        self._objects = cluster.objects()
        self._ca = ca

    def issue(self) -> None:
        """Issue the Certificate opa-tls, or issue it again."""
        spec = (self._objects.get("cert-manager.io/v1", "Certificate", "opa-tls", NAMESPACE) or {})[
            "spec"
        ]
        ips, dns = spec["ipAddresses"], spec["dnsNames"]
        pair = self._ca.issue(
            spec["commonName"], dns=dns, ips=ips, server=True, valid=timedelta(days=90)
        )
        data = {
            "tls.crt": pair.cert_pem,
            "tls.key": pair.key_pem,
            "ca.crt": self._ca.cert_pem,
        }
        self._objects.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "kubernetes.io/tls",
                "metadata": {
                    "name": spec["secretName"],
                    "namespace": NAMESPACE,
                    "annotations": {"cert-manager.io/certificate-name": "opa-tls"},
                },
                "data": {key: b64encode(value).decode() for key, value in data.items()},
            }
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """Wait for the Certificate in the background, and issue it."""
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(0.2):
                try:
                    if self._objects.get("cert-manager.io/v1", "Certificate", "opa-tls", NAMESPACE):
                        self.issue()
                        return
                except FairleadError:
                    continue

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """A cluster with cert-manager's resource definitions and a default deployment of Fairlead."""
    installed = definitions()
    with started(
        f"cert-manager-{os.getpid()}", Settings(), {"pool1": 1}, progress=QUIET
    ) as running:
        with pytest.raises(UsageError, match="has no cert-manager"):
            deploy.deploy(running, PolicySet.load(SETTINGS), progress=QUIET)
        objects = running.objects()
        for definition in installed:
            objects.apply(definition)
        until(partial(served, running), what="the definitions are in force")
        # what cert-manager issues is another one
        objects.delete("v1", "Secret", "opa-tls", NAMESPACE)
        with CertManager(running, ROOT_CA).running():
            deploy.deploy(running, PolicySet.load(SETTINGS), progress=QUIET)
        yield running


@pytest.fixture
def objects(cluster: EmbeddedCluster) -> clients.Objects:
    return cluster.objects()


def test_pods_are_placed_by_the_certificate_that_it_issued(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    credentials = deployed_state.credentials(objects)
    assert credentials is not None
    for kind in KINDS:
        configuration = objects.get(ADMISSION, kind, "fairlead") or {}
        assert (
            configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            == f"{NAMESPACE}/opa-tls"
        )
        trusted = [
            b64decode(webhook["clientConfig"]["caBundle"]) for webhook in configuration["webhooks"]
        ]
        assert all(credentials.ca.strip() in bundle for bundle in trusted)
    assert comes(objects)


def test_cas_that_it_injects_stay_when_fairlead_deploys_again(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    """Fairlead does not apply the field, so no later deployment removes or replaces its value."""
    for kind in KINDS:
        managed = (objects.get(ADMISSION, kind, "fairlead") or {})["metadata"]["managedFields"]
        applied = [
            json.dumps(entry["fieldsV1"]) for entry in managed if entry["operation"] == "Apply"
        ]
        assert applied
        assert not any("caBundle" in fields for fields in applied)
    deploy.deploy(cluster, PolicySet.load(SETTINGS), progress=QUIET)
    assert comes(objects)


def test_its_renewal_refuses_no_pod_and_ours_is_refused(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    rows = status.status(cluster)["certificates"]
    assert {row["renewer"] for row in rows} == {"cert-manager"}
    issuing = CertManager(cluster, ROOT_CA)
    namespace = mapped(objects)
    for _ in range(3):
        before = certificate(objects)
        issuing.issue()
        assert certificate(objects) != before
        for number in range(15):  # while the files are replaced, and after that
            assert placed(objects, namespace, f"p{next(_numbers)}-{number}")
    with pytest.raises(UsageError, match="cert-manager renews the certificate"):
        rotate.certificate(cluster, progress=QUIET)


_numbers = itertools.count()


def served(cluster: EmbeddedCluster) -> bool:
    rotate.require_cert_manager(cluster)
    return True


def certificate(objects: clients.Objects) -> bytes:
    credentials = deployed_state.credentials(objects)
    assert credentials is not None
    return credentials.certificate


def mapped(objects: clients.Objects) -> str:
    """A mapped namespace."""
    at = f"case-{next(_numbers)}"
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": at, "labels": {"agentpool": "pool1"}},
        }
    )
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": at},
        }
    )
    return at


def placed(objects: clients.Objects, namespace: str, name: str) -> bool:
    """Whether a new pod gets its pool. Raises Refused if it is refused."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
    made = objects.create(pod | {"spec": {"containers": [{"name": "main", "image": "nginx:1.29"}]}})
    return bool(made["spec"]["nodeSelector"] == {"agentpool": "pool1"})


def comes(objects: clients.Objects) -> bool:
    """Whether a new pod gets its pool within a few seconds."""
    at = mapped(objects)
    return until(lambda: placed(objects, at, "web"), what="a pod is placed")

"""The cluster itself renews the certificate, whichever process is killed meanwhile, and no pod is
refused."""

from __future__ import annotations

import base64
import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest
import requests
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Tls
from fairlead.deployment.disabled_intents import Disabled
from fairlead.deployment.names import CONTROLLER, NAMESPACE
from fairlead.keeper.lease import Lease
from fairlead.keeper.trust import Deployed
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, deployed_state, disable, rotate, status
from fairlead.pki import certificates
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it kills servers, and plays other replicas")

QUIET = Progress()
OFTEN = Settings.model_validate({"certificates": {"life": "2m", "renewBefore": "116s"}})
# What another replica does, once: with the service account's rights, and killed before the write
# that is told, if any.
REPLICA = """
import os, signal, sys
from datetime import timedelta
from pathlib import Path
from prometheus_client import CollectorRegistry
from fairlead.keeper import lease, servers
from fairlead.keeper.keeper import Keeper
from fairlead.kube.clients import Objects

class Killed(Objects):
    writes = 0
    def call(self, method, path, body=None, **more):
        counted = method == "PATCH" and "leases" not in path
        self.writes += counted
        if counted and self.writes == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().call(method, path, body, **more)

kubeconfig, opas, sidecars, valid, at = sys.argv[1:]
at, valid = int(at), timedelta(days=int(valid))
lease.DURATION, lease.RENEWED, lease.MARGIN = 2.0, 0.3, 0.2
address = lambda text: [(one.split(":")[0], int(one.split(":")[1])) for one in text.split(",")]
api = Killed(Path(kubeconfig))
serving = servers.Serving(servers.named(address(opas), address(sidecars)), pause=0.1)
before = valid - timedelta(days=1)
keeper = Keeper(api, serving, valid=valid, before=before, replica=f"other-{os.getpid()}", registry=CollectorRegistry())
while not keeper._is_settled(keeper._deployed.secret()):
    keeper.look()
"""  # noqa: E501


@pytest.fixture(scope="module")
def renewing(cluster: EmbeddedCluster) -> EmbeddedCluster:
    """A cluster with two OPAs, whose certificate is renewed after a few seconds."""
    deploy.deploy(cluster, PolicySet.load(OFTEN), progress=QUIET)
    rotate.certificate(cluster, progress=QUIET)  # the one before lasts for months
    return cluster


@pytest.fixture(scope="module")
def calm(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster whose controller has nothing to renew for weeks; for the tests after the others."""
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)
    until(
        lambda: tls(cluster).remaining > timedelta(days=1) and settled(cluster),
        what="the certificate lasts",
    )
    yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)


def tls(cluster: EmbeddedCluster) -> Tls:
    """The content of the Secret."""
    credentials = deployed_state.credentials(cluster.objects())
    assert credentials is not None
    return credentials.tls


def settled(cluster: EmbeddedCluster) -> bool:
    return Deployed(Objects(cluster.kubeconfig), manager="test").settled(tls(cluster))


def events(cluster: EmbeddedCluster, reason: str) -> list[str]:
    objects = cluster.objects()
    return [
        e["message"] for e in objects.list("v1", "Event", NAMESPACE) if e.get("reason") == reason
    ]


def metrics(cluster: EmbeddedCluster) -> dict[str, float]:
    """The certificate's metrics, summed over the sidecars and the controller."""
    values: dict[str, float] = {}
    for server in (*cluster.sidecars(), *cluster.controllers()):
        with requests.Session() as session:
            session.trust_env = False
            text = session.get(f"{server.url}/metrics", verify=str(server.ca), timeout=10).text
        for line in text.splitlines():
            if line.startswith("fairlead_certificate"):
                name, value = line.rsplit(" ", 1)
                values[name] = values.get(name, 0.0) + float(value)
    return values


@contextmanager
def load(cluster: EmbeddedCluster) -> Iterator[dict[str, list[str]]]:
    """Creates pods in a mapped namespace continuously and deletes each at once. Returns which were
    placed and which were not.
    """
    at, numbers, stop = f"load-{time.monotonic_ns()}", itertools.count(), threading.Event()
    objects = cluster.objects()
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
    outcome: dict[str, list[str]] = {"placed": [], "failed": []}

    def create() -> None:
        api = cluster.objects()
        while not stop.is_set():
            name = f"p{next(numbers)}"
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": at}}
            try:
                made = api.create(
                    pod | {"spec": {"containers": [{"name": "main", "image": "nginx:1.29"}]}}
                )
            except Refused as error:
                outcome["failed"].append(str(error))
                continue
            placed = made["spec"].get("nodeSelector") == {"agentpool": "pool1"}
            outcome["placed" if placed else "failed"].append(name)
            api.delete("v1", "Pod", name, at)

    with ThreadPoolExecutor(2) as executor:
        working = [executor.submit(create) for _ in range(2)]
        try:
            yield outcome
        finally:
            stop.set()
        for future in working:
            future.result()


@pytest.mark.parametrize("renewals", [3, pytest.param(10, marks=pytest.mark.lab)])
def test_certificates_are_renewed_again_and_again_under_load_and_no_pod_is_refused(
    renewing: EmbeddedCluster, renewals: int
) -> None:
    seen: list[bytes] = []

    def renewed() -> bool:
        now = tls(renewing)
        if now.certificate not in seen:
            seen.append(now.certificate)
            assert now.remaining > timedelta(0)
        return len(seen) > renewals

    with load(renewing) as outcome:
        waiting.until(renewed, deadline=600, what=f"{renewals} renewals", pause=0.2)
    assert outcome["failed"] == []
    assert outcome["placed"]
    renewal_events = events(renewing, "CertificateRenewed")
    assert len(renewal_events) >= renewals - 1  # the last one tells once it has ended
    counted = metrics(renewing)
    assert counted['fairlead_certificate_renewals_total{outcome="renewed"}'] >= renewals - 1
    assert counted['fairlead_certificate_renewals_total{outcome="failed"}'] == 0
    assert counted["fairlead_certificate_not_after_seconds"] > 3 * time.time()  # of three servers
    rows = status.status(renewing)["certificates"]
    assert {(row["by"], row["renewer"]) for row in rows} == {(CONTROLLER, CONTROLLER)}
    assert all(row["renewed"] for row in rows)


def test_a_renewal_leaves_disabled_what_is_disabled_and_says_so(renewing: EmbeddedCluster) -> None:
    disable.disable(renewing, None, "OPA hangs")
    try:
        before = disable.read(renewing.objects()).records["node-pool"]
        until(
            lambda: any(before.sentence in text for text in events(renewing, "CertificateRenewed")),
            what="a renewal says that node-pool is disabled",
        )
        assert disable.read(renewing.objects()) == Disabled({"node-pool": before}, [])
    finally:
        disable.enable(renewing, None)


def test_commands_and_controllers_do_not_disturb_each_other(renewing: EmbeddedCluster) -> None:
    with load(renewing) as outcome:
        for _ in range(2):
            rotate.certificate(renewing, progress=QUIET)
            deploy.deploy(renewing, PolicySet.load(OFTEN), progress=QUIET)
    assert outcome["failed"] == []
    assert outcome["placed"]


def replica(cluster: EmbeddedCluster, valid: int, at: int = 0) -> subprocess.CompletedProcess[str]:
    opas, sidecars = (
        ",".join(server.url.removeprefix("https://") for server in servers)
        for servers in (cluster.opas(), cluster.sidecars())
    )
    kubeconfig = str(cluster.path / f"{CONTROLLER}.kubeconfig")
    argv = [sys.executable, "-c", REPLICA, kubeconfig, opas, sidecars, str(valid), str(at)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)


def goes_on(cluster: EmbeddedCluster, valid: int) -> bool:
    """Whether another replica finishes the renewal; it waits until the Lease of the killed one has
    expired.
    """
    done = replica(cluster, valid)
    assert (done.returncode, done.stderr) == (0, "")
    return settled(cluster) and tls(cluster).remaining > timedelta(days=valid - 1)


def more(placed: list[str], than: int) -> bool:
    return len(placed) > than + 3


# The Secret is written three times, either webhook configuration twice.
@pytest.mark.parametrize(
    "writes", [(1, 5, 9), pytest.param(tuple(range(1, 10)), marks=pytest.mark.lab)]
)
def test_a_controller_killed_at_any_step_leaves_what_works_and_another_goes_on(
    calm: EmbeddedCluster, writes: Sequence[int]
) -> None:
    valid = tls(calm).remaining.days + 10
    with load(calm) as outcome:
        for at in writes:
            done = replica(calm, valid, at)
            assert done.returncode == -signal.SIGKILL, done.stderr
            created = len(outcome["placed"])
            until(partial(more, outcome["placed"], created), what="pods are placed")
            assert outcome["failed"] == []
            until(partial(goes_on, calm, valid), what="another replica went on")
            valid += 10  # the next one is due again
        done = replica(calm, valid, writes[-1] + 1)
    assert (done.returncode, done.stderr) == (0, "")  # there is no further write
    assert outcome["failed"] == []
    assert settled(calm)


def test_an_expired_certificate_found_at_start_is_replaced(calm: EmbeddedCluster) -> None:
    objects = calm.objects()
    before = len(events(calm, "CertificateRenewed"))
    expired(calm)
    with load(calm) as outcome:
        until(lambda: outcome["failed"], what="nobody can call OPA")
        calm.restart_server(CONTROLLER)
        until(
            lambda: tls(calm).remaining > timedelta(days=1) and settled(calm), what="it is replaced"
        )
        created = len(outcome["placed"])
        until(lambda: len(outcome["placed"]) > created, what="pods are placed again")
    until(lambda: len(events(calm, "CertificateRenewed")) > before, what="an Event tells it")
    assert objects.get("v1", "Secret", "opa-tls", NAMESPACE)


def expired(cluster: EmbeddedCluster) -> None:
    """Make everything use an expired certificate."""
    ca = certificates.CA.create("ended", timedelta(seconds=-1))
    pair = ca.issue(
        "opa", dns=("localhost",), ips=("127.0.0.1",), server=True, valid=timedelta(seconds=-1)
    )
    ended = Tls(pair.cert_pem, pair.key_pem, ca.cert_pem)
    deployed = Deployed(Objects(cluster.kubeconfig), manager="test")
    deployed.publish(ended)
    cluster.refresh({"opa-tls": ended.files})
    deployed.trust(ended.ca)


def test_one_at_a_time_changes_the_certificate(
    calm: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, taken = [], Lease._taken

    def counted(lease: Lease) -> bool:
        tries.append(lease)
        return taken(lease)

    monkeypatch.setattr(Lease, "_taken", counted)
    api = Objects(calm.kubeconfig)
    first, second = Lease(api, "one"), Lease(api, "other")
    with first.attempt() as leading:
        assert leading
        with second.attempt() as too:
            assert not too
        with pytest.raises(FairleadError):
            second.check()
        first.check()
        with ThreadPoolExecutor(1) as pool:
            rotating = pool.submit(rotate.certificate, calm, progress=QUIET)
            until(lambda: len(tries) > 2, what="the rotation waits for the Lease")
            before = tls(calm)
            assert not rotating.done()
            assert before.ca == before.issuer
            first._release()
            rotating.result(timeout=120)
    assert tls(calm).certificate != before.certificate


def test_who_waits_in_vain_for_the_lease_is_told_who_holds_it(
    calm: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Objects(calm.kubeconfig)
    monkeypatch.setattr("fairlead.keeper.lease.PATIENCE", 1.0)
    with (
        Lease(api, "one").attempt(),
        pytest.raises(FairleadError, match=r"nobody else is at work .* \(one holds it\)"),
        Lease(api, "other").held(),
    ):
        pass


def test_the_lease_of_one_who_died_is_taken_over(
    calm: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Objects(calm.kubeconfig)
    died, other = Lease(api, "died"), Lease(api, "other")
    monkeypatch.setattr("fairlead.keeper.lease.DURATION", 2.0)
    assert died._take()
    with other.attempt() as leading:
        assert not leading
    until(other._take, what="the Lease is taken over", pause=0.2)
    with pytest.raises(FairleadError, match="somebody else"):
        died.check()
    other._release()


def test_a_certificate_that_a_file_keeps_is_left_alone_and_warned_of(calm: EmbeddedCluster) -> None:
    objects = calm.objects()
    before = tls(calm)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "opa-tls", "namespace": NAMESPACE},
    }
    mark = {"annotations": {"fairlead.dev/renewed-by": "fairlead render"}}
    objects.merge(secret, {"metadata": mark})
    done = replica(calm, 5000)  # due, for such a life
    assert done.returncode != 0
    assert "renew it with fairlead render, which manages it" in done.stderr
    assert tls(calm) == before
    assert {row["renewer"] for row in status.status(calm)["certificates"]} == {"fairlead render"}
    deploy.deploy(calm, PolicySet.load(Settings()), progress=QUIET)
    assert {row["renewer"] for row in status.status(calm)["certificates"]} == {CONTROLLER}


def test_status_warns_where_nothing_renews(calm: EmbeddedCluster) -> None:
    calm.stop_server(CONTROLLER)
    try:
        described = status.status(calm)
        assert all("nothing renews it" in row["warning"] for row in described["certificates"])
        assert "no controller runs: " in "; ".join(described["problems"])
    finally:
        deploy.deploy(calm, PolicySet.load(Settings()), progress=QUIET)
    assert not any(row["warning"] for row in status.status(calm)["certificates"])


def test_beside_a_sidecar_that_reads_once_the_pods_are_replaced(calm: EmbeddedCluster) -> None:
    """Runs `fairlead controller` as its Deployment does. Here there are no pods, so it gets the
    addresses as options.
    """
    objects = calm.objects()
    opas = ",".join(server.url.removeprefix("https://") for server in calm.opas())
    (port,) = calm.free_ports(1)
    mounted = calm.path / "mounted" / "opa-0" / "tls"
    before = tls(calm)
    argv = [
        "controller",
        f"--kubeconfig={calm.kubeconfig}",
        "--certificate-life=3000d",
        "--renew-before=2999d",
    ]
    argv += [f"--opas={opas}", "--roll-out", f"--health-endpoint=127.0.0.1:{port}"]
    argv += [
        f"--tls-cert-file={mounted / 'tls.crt'}",
        f"--tls-private-key-file={mounted / 'tls.key'}",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "fairlead", *argv], stderr=subprocess.PIPE
    ) as process:
        try:
            renewals = until(
                partial(renewals_of, f"https://127.0.0.1:{port}/metrics"),
                what="it renewed",
                pause=0.5,
            )
        finally:
            process.terminate()
    assert renewals == 1
    now = tls(calm)
    assert now.remaining > timedelta(days=2998)
    assert now.certificate != before.certificate
    assert settled(calm)
    deployment = objects.get("apps/v1", "Deployment", "opa", NAMESPACE) or {}
    assert "fairlead.dev/authorities" in deployment["spec"]["template"]["metadata"]["annotations"]
    # API servers leave the pods that end: a new comment makes them connect again.
    bundles = {
        base64.b64decode(webhook["clientConfig"]["caBundle"])
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for webhook in (objects.get("admissionregistration.k8s.io/v1", kind, "fairlead") or {})[
            "webhooks"
        ]
    }
    assert all(b"\n# reconnect " in bundle for bundle in bundles)
    # A deployment keeps it, as otherwise API servers would use their old connections again.
    deploy.deploy(calm, PolicySet.load(Settings()), progress=QUIET)
    again = objects.get(
        "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "fairlead"
    )
    assert again
    assert base64.b64decode(again["webhooks"][0]["clientConfig"]["caBundle"]) in bundles
    # With the sidecar that is here, what it was for is nobody's any more.
    rotate.certificate(calm, progress=QUIET)


def renewals_of(url: str) -> float | None:
    """The number of renewals by a controller; None before the first, or if it does not answer."""
    with requests.Session() as session:
        session.trust_env = False
        try:
            text = session.get(url, verify=False, timeout=10).text
        except requests.RequestException:
            return None
    line = next(
        line
        for line in text.splitlines()
        if line.startswith('fairlead_certificate_renewals_total{outcome="r')
    )
    return float(line.rsplit(" ", 1)[1]) or None

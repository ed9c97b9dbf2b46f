"""The cluster in which all peers run, and the namespaces by which API servers tell them apart."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import atomic_files
from fairlead.common.progress import Progress
from fairlead.deployment.names import OPA_ENGINE
from fairlead.kube import clients
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.opa import containers
from fairlead.opa.api import OpaApi
from fairlead.operations import up
from fairlead.pki.certificates import CA
from fairlead.programs import toolchain
from fairlead.settings.models import Pool, Settings
from lab.bench import load, processes, second_api_server
from lab.bench.load import Load
from lab.engines.gatekeeper.in_force import InForce
from lab.engines.live.namespaces import needed
from lab.engines.live.worlds import create

DEADLINE = 120.0
"""Seconds within which a server starts, or something takes effect, also on a busy machine."""
POOL = "pool1"
SETTINGS = Settings(pools={"pool1": Pool(), "pool2": Pool()})
"""Those of all engines of Fairlead, but for the label of namespaces. Pools are declared because
Gatekeeper can do without it less than the others: it has a mutator for each pool."""
_ADMISSION = "admissionregistration.k8s.io/v1"
_VALID = timedelta(days=1)
_WRITERS = 8


@dataclass
class Ground:
    """The cluster, with Fairlead's OPA in force for the namespaces that have its label, and what
    the peers share.
    """

    cluster: EmbeddedCluster
    load: Load
    progress: Progress
    ca: CA
    tls: Path
    """The folder with the certificate of the peers: ca.crt, tls.crt, tls.key."""
    opas: dict[str, str] = field(default_factory=dict)
    """The URLs of the OPAs of peers, which get their data by `know`."""
    second: str = ""
    """The URL of the API server with the plugin PodNodeSelector, once that is started."""
    gatekeeper: InForce | None = None
    """The objects of Gatekeeper, once that is started."""
    namespaces: int = 0
    """How many namespaces `fill` has made, besides one for each peer."""

    def __post_init__(self) -> None:
        self.api = Objects(self.cluster.kubeconfig)
        """The API server, asked by its administrator."""
        self.url: str = clients.connect(self.cluster.kubeconfig).configuration.host
        self.second_api = Objects(self.cluster.kubeconfig)
        """The second API server, once it is started."""

    def start_opa(self, name: str, policy: Path) -> str:
        """Start an OPA with this policy, as lean as an OPA with TLS can be; returns its URL. Raises
        FairleadError.
        """
        (port,) = self.cluster.free_ports(1)
        address = f"{ports.HOST}:{port}"
        program = toolchain.ensure(["opa"], self.progress)["opa"]
        argv: list[str | Path] = [program, "run", "--server", f"--addr={address}"]
        argv += [f"--tls-cert-file={self.tls / 'tls.crt'}", "--tls-cert-refresh-period=1h"]
        argv += [f"--tls-private-key-file={self.tls / 'tls.key'}", "--log-level=error", policy]
        self.cluster.start_server(
            name,
            argv,
            env=containers.OPA_ENVIRONMENT,
            ready=f"https://{address}/health",
            ca=self.tls / "ca.crt",
            deadline=DEADLINE,
        )
        self.opas[name] = f"https://{address}"
        return self.opas[name]

    def ask(self, label: str, url: str, phases: Sequence[str]) -> None:
        """Have the API server ask the webhook at `url` about new pods in namespaces with the label.
        `phases` are Mutating, Validating or both.
        """
        webhook = {
            "name": "pods.bench.fairlead.dev",
            "clientConfig": {"url": url, "caBundle": base64.b64encode(self.ca.cert_pem).decode()},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                }
            ],
            "namespaceSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "admissionReviewVersions": ["v1"],
        }
        for phase in phases:
            self.create(
                {
                    "apiVersion": _ADMISSION,
                    "kind": f"{phase}WebhookConfiguration",
                    "metadata": {"name": label},
                    "webhooks": [webhook],
                }
            )

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Create an object. Raises FairleadError."""
        namespace = manifest["metadata"].get("namespace")
        create(self.api, path_of(manifest, namespace), manifest)

    def namespace(
        self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> None:
        """Create a namespace in which pods can be created. Raises FairleadError."""
        metadata = {"name": name, "labels": dict(labels), "annotations": dict(annotations)}
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        # The controller manager may have been faster.
        self.api.request("POST", path_of(account, name), account)

    def fill(self, count: int, labels: Sequence[str]) -> None:
        """See that there are `count` namespaces, mapped for the peers with these labels. Raises
        FairleadError.
        """

        def make(number: int) -> None:
            self.create(_team(number, labels))

        self._for_each(range(self.namespaces, count), "creating", make)
        self.namespaces = max(count, self.namespaces)
        self.know()

    def label(self, labels: Sequence[str]) -> None:
        """Map the namespaces that `fill` has made for the peers with these labels. Raises
        FairleadError.
        """

        def put(number: int) -> None:
            team = _team(number, labels)
            path = path_of(team, None, team["metadata"]["name"])
            needed(self.api.request("PUT", path, team), "labelling a namespace")

        self._for_each(range(self.namespaces), "labelling", put)
        self.know()

    def _for_each(self, numbers: range, doing: str, change: Callable[[int], None]) -> None:
        def report(number: int) -> None:
            change(number)
            if number % 100 == 0:
                self.progress.update("namespaces", doing, done=number, total=numbers.stop)

        with ThreadPoolExecutor(_WRITERS) as several:
            list(several.map(report, numbers))
        self.progress.finish("namespaces", f"{numbers.stop} are there")

    def know(self) -> None:
        """Give the OPAs of peers all namespaces, as whole objects, which is how kube-mgmt gives
        them.
        """
        items = self.api.request("GET", "/api/v1/namespaces").body["items"]
        namespaces = {
            each["metadata"]["name"]: {
                **each,
                "metadata": {
                    **each["metadata"],
                    "labels": {**each["metadata"]["labels"], "agentpool": POOL},
                },
            }
            for each in items
        }
        for url in self.opas.values():
            api = OpaApi(url, ca=self.tls / "ca.crt", timeout=DEADLINE)
            api.put_document(["kubernetes", "namespaces"], namespaces)
            api.close()

    def pids(self) -> dict[str, int]:
        """The servers of the cluster and of all peers, by name."""
        return processes.pids(self.cluster)

    def start_second(self) -> None:
        """Start an API server with the plugin PodNodeSelector. Raises FairleadError."""
        plugins = {"enable-admission-plugins": "NodeRestriction,PodNodeSelector"}
        self.second = second_api_server.start(self.cluster, plugins, deadline=DEADLINE)
        kubeconfig = self.cluster.path / "second.kubeconfig"
        kubeconfig.write_text(self.cluster.kubeconfig.read_text().replace(self.url, self.second))
        self.second_api = Objects(kubeconfig)


def _team(number: int, labels: Sequence[str]) -> dict[str, Any]:
    metadata = {"name": f"team-{number}", "labels": dict.fromkeys(labels, POOL)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


@contextmanager
def prepared(
    progress: Progress,
    *,
    settings: Settings = SETTINGS,
    engine: str = OPA_ENGINE,
    sidecar: str | None = None,
) -> Iterator[Ground]:
    """A ground with Fairlead by this engine, and OPA with this sidecar, until the block ends.
    Raises FairleadError.
    """
    with up.started(
        f"bench-{secrets.token_hex(4)}",
        settings,
        {POOL: 1},
        engine=engine,
        sidecar=sidecar,
        progress=progress,
    ) as cluster:
        ca = CA.create("bench", _VALID)
        pair = ca.issue("bench", ips=[ports.HOST], server=True, valid=_VALID)
        tls = cluster.path / "peers"
        tls.mkdir(mode=0o700)
        files = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
        for name, content in files.items():
            atomic_files.write_private(tls / name, content)
        with load.running(cluster.path / "pki", progress) as sender:
            yield Ground(cluster, sender, progress, ca, tls)

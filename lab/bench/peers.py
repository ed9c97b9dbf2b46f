"""The peers. To add one, write a function that puts it in force for the namespaces with a label,
and its line in PEERS."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fairlead import engines
from fairlead.clusters.embedded import ports
from fairlead.common import paths
from fairlead.deployment import component_flags as flags
from fairlead.deployment import manifests, sidecars
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.engines.kyverno import manifests as kyverno_policies
from fairlead.kube.api_paths import path_of
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.bench.ground import DEADLINE, POOL, SETTINGS, Ground
from lab.engines.gatekeeper import controller as gatekeeper
from lab.engines.gatekeeper.in_force import InForce
from lab.engines.kyverno import controller as kyverno
from lab.engines.live import custom_resources
from lab.engines.live.worlds import create

NO_POLICY = "no policy"
NO_POLICY_SECOND = "no policy, second API server"
EMPTIEST = "emptiest OPA webhook"
_ADMISSION = "admissionregistration.k8s.io/v1"
_BOTH = ("Mutating", "Validating")
_FEW = 100
"""The most namespaces with which no peer is slow."""
HANDWRITTEN = paths.root() / "bench" / "peers" / "handwritten.yaml"


@dataclass(frozen=True)
class Peer:
    """A peer. `start` puts it in force for the namespaces that have the label.

    `places` is whether it gives pods their nodeSelector, `second` whether the second API server is
    asked, `program` what has to be built for it alone. `group` is what it is in the picture.
    `engine` is what a cluster of its own is deployed with, None if it needs none; with a `sidecar`,
    there is no other cluster in which it can be measured. `grows` is whether its time grows with
    the number of namespaces.
    """

    name: str
    group: str
    start: Callable[[Ground, str], None]
    places: bool = True
    second: bool = False
    program: str | None = None
    own_label: str = ""
    engine: str | None = None
    sidecar: str | None = None
    grows: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The namespace whose pods the peer places."""
        return f"bench-{self.name.lower().replace(',', '').replace(' ', '-')}"

    @property
    def label(self) -> str:
        """The label that maps a namespace for this peer alone."""
        return self.own_label or self.namespace

    @property
    def floor(self) -> str:
        """The name of the peer that the ratios of this one are to."""
        return NO_POLICY_SECOND if self.second else NO_POLICY

    def pods(self, ground: Ground) -> str:
        """The URL to which a dry run of a new pod is sent."""
        server = ground.second if self.second else ground.url
        return f"{server}/api/v1/namespaces/{self.namespace}/pods?dryRun=All"

    def prepare(self, ground: Ground) -> None:
        """Put the peer in force, and create its namespace. Raises FairleadError."""
        ground.progress.update(self.name, "starting")
        self.start(ground, self.label)
        ground.namespace(self.namespace, {self.label: POOL}, self.annotations)
        ground.progress.finish(self.name, "in force")


def _nothing(ground: Ground, label: str) -> None:
    """No policy; or that which is in force from the start."""


def _second(ground: Ground, label: str) -> None:
    if not ground.second:
        ground.start_second()


def _opa(policy: str, *phases: str) -> Callable[[Ground, str], None]:
    """An OPA with a policy of bench/peers, which API servers ask in these phases."""

    def start(ground: Ground, label: str) -> None:
        name = f"opa-{policy.replace('_', '-')}"
        file = paths.root() / "bench" / "peers" / f"{policy}.rego"
        url = ground.opas.get(name) or ground.start_opa(name, file)
        ground.ask(label, f"{url}/", phases)

    return start


def _cel(ground: Ground, label: str) -> None:
    for manifest in engines.render("cel", PolicySet.load(settings_of(label))):
        if manifest["kind"] == "CustomResourceDefinition":
            custom_resources.serve(ground.api, [manifest])
        elif manifest["apiVersion"] == _ADMISSION:
            ground.create(manifest)
        else:  # parameters, whose resource is named in the singular
            path = f"/apis/{manifest['apiVersion']}/{manifest['kind'].lower()}"
            create(ground.api, path, manifest)


def _handwritten(ground: Ground, label: str) -> None:
    """Policies of bench/peers, which name the label."""
    for manifest in yaml.safe_load_all(HANDWRITTEN.read_text()):
        ground.create(manifest)


def _python(ground: Ground, label: str) -> None:
    settings = settings_of(label)
    (port,) = ground.cluster.free_ports(1)
    address, name = f"{ports.HOST}:{port}", "fairlead-serve"
    file = ground.tls / "python.yaml"
    pools: dict[str, Any] = {pool: {} for pool in settings.pools}
    file.write_text(yaml.safe_dump({"namespaceLabel": label, "pools": pools}))
    argv: list[str | Path] = [*sidecars.SERVE.command(), "serve", f"--settings={file}"]
    argv += [
        f"{flags.KUBECONFIG}={ground.cluster.kubeconfig}",
        f"{flags.LISTEN}={address}",
        f"{flags.TLS_CERT_FILE}={ground.tls / 'tls.crt'}",
        f"{flags.TLS_PRIVATE_KEY_FILE}={ground.tls / 'tls.key'}",
        f"{flags.WORKERS}=2",  # as in a deployment
    ]
    ca = ground.tls / "ca.crt"
    ready = f"https://{address}/health/ready"
    ground.cluster.start_server(name, argv, ready=ready, ca=ca, deadline=DEADLINE)
    server = {
        "url": f"https://{address}/",
        "caBundle": base64.b64encode(ground.ca.cert_pem).decode(),
    }
    for manifest in manifests.render_webhooks(PolicySet.load(settings)):
        renamed = _renamed(manifest, label)
        for webhook in renamed.get("webhooks", ()):
            webhook["clientConfig"] = server
        ground.create(renamed)


def _renamed(manifest: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The object beside that of the same name, which OPA's deployment has."""
    metadata = {**manifest["metadata"], "name": f"{prefix}.{manifest['metadata']['name']}"}
    renamed = {**manifest, "metadata": metadata}
    if "policyName" in manifest.get("spec", {}):
        policy = f"{prefix}.{manifest['spec']['policyName']}"
        renamed["spec"] = {**manifest["spec"], "policyName": policy}
    return renamed


def _gatekeeper(ground: Ground, label: str) -> None:
    gatekeeper.serve_definitions(ground.api, ground.progress)
    gatekeeper.start(ground.cluster, ground.api, ground.progress)
    # It is started for the users of the cases; here it is for a namespace.
    for phase in _BOTH:
        kind = {"apiVersion": _ADMISSION, "kind": f"{phase}WebhookConfiguration"}
        path = path_of(kind, None, gatekeeper.WEBHOOKS)
        configuration = ground.api.request("GET", path).body
        for webhook in configuration["webhooks"]:
            webhook["namespaceSelector"] = {
                "matchExpressions": [{"key": label, "operator": "Exists"}]
            }
            webhook["matchConditions"] = [
                each for each in webhook["matchConditions"] if each["name"] != gatekeeper.CONDITION
            ]
        ground.api.request("PUT", path, configuration)
    ground.gatekeeper = InForce(ground.api)
    ground.gatekeeper.put(engines.render("gatekeeper", PolicySet.load(settings_of(label))))


def _kyverno(ground: Ground, label: str) -> None:
    kyverno.start(ground.cluster, ground.api, ground.progress)
    for policy in engines.render("kyverno", PolicySet.load(settings_of(label))):
        create(ground.api, kyverno_policies.path(policy), policy)


def settings_of(label: str) -> Settings:
    """Those of a peer, whose namespaces have this label."""
    return SETTINGS.model_copy(update={"namespace_label": label})


def for_several_clients(peers: Sequence[Peer], namespaces: int) -> list[Peer]:
    """Those that several clients at once can ask. A peer that takes longer with so many namespaces
    would take most of the benchmark's time.
    """
    return [peer for peer in peers if not peer.grows or namespaces <= _FEW]


OPA = Peer("Fairlead opa", "Fairlead", _nothing, own_label=SETTINGS.namespace_label)
WITH_KUBE_MGMT = Peer(
    "Fairlead opa, kube-mgmt",
    "Fairlead",
    _nothing,
    own_label=SETTINGS.namespace_label,
    engine=OPA_ENGINE,
    sidecar=sidecars.KUBE_MGMT.name,
)
PEERS = (
    Peer(NO_POLICY, "floor", _nothing, places=False),
    Peer(EMPTIEST, "floor", _opa("emptiest", "Mutating"), places=False),
    Peer(f"{EMPTIEST}, twice", "floor", _opa("emptiest", *_BOTH), places=False),
    OPA,
    WITH_KUBE_MGMT,
    Peer("Fairlead cel", "Fairlead", _cel, engine="cel"),
    Peer("Fairlead python", "Fairlead", _python, engine=PYTHON_ENGINE),
    Peer(NO_POLICY_SECOND, "floor", _second, places=False, second=True),
    Peer(
        "PodNodeSelector plugin",
        "other",
        _second,
        second=True,
        annotations={"scheduler.alpha.kubernetes.io/node-selector": f"agentpool={POOL}"},
    ),
    Peer("handwritten CEL", "other", _handwritten),
    Peer("plain OPA look-up", "other", _opa("look_up", "Mutating")),
    Peer("classic OPA policy", "other", _opa("classic", "Mutating"), grows=True),
    Peer("Gatekeeper", "other", _gatekeeper, program=gatekeeper.PROGRAM),
    Peer("Kyverno", "other", _kyverno, program=kyverno.PROGRAM),
)

"""Runs Gatekeeper's controller beside an embedded cluster, outside of it."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path
from typing import Any

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import atomic_files, yaml_files
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.engines.gatekeeper import installation
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.pki.certificates import CA
from fairlead.programs import toolchain
from lab.engines.live import custom_resources

PROGRAM = "gatekeeper"
MODULE = "github.com/open-policy-agent/gatekeeper/v3"
NAMESPACE = "gatekeeper-system"
WEBHOOKS = "fairlead-verify"
"""Both webhook configurations."""
GROUP = "fairlead:verify"
"""The group of the users whose requests Gatekeeper is asked about. What cases start from is
created by others."""
CONDITION = "verified-here"
"""The match condition of both webhooks that says so."""
_DEADLINE = 180.0
"""Seconds within which it is ready. It takes 5, and much longer on a busy machine."""
_VALID = timedelta(days=1)
_OPERATIONS = (
    *("generate", "mutation-controller", "mutation-status", "mutation-webhook"),
    *("status", "webhook"),
)
_PATHS = {"mutating": "/v1/mutate", "validating": "/v1/admit"}


def definitions(progress: Progress) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of Gatekeeper, from the sources that it is built from. Raises
    FairleadError.
    """
    folder = toolchain.sources(PROGRAM, MODULE, progress) / "charts" / "gatekeeper" / "crds"
    return [
        document.value
        for path in sorted(folder.glob("*.yaml"))
        for document in yaml_files.read_yaml(path)
    ]


def serve_definitions(api: Objects, progress: Progress) -> None:
    """Make an API server serve Gatekeeper's kinds. Raises FairleadError."""
    progress.update(PROGRAM, "creating its kinds")
    custom_resources.serve(api, definitions(progress))


def start(cluster: BareCluster, api: Objects, progress: Progress) -> None:
    """Start Gatekeeper, which ends with the cluster, and make the API server ask it as values.yaml
    says, but only about requests of users in GROUP. The API server already serves its kinds. Raises
    FairleadError.
    """
    program = toolchain.ensure([PROGRAM], progress)[PROGRAM]
    progress.update(PROGRAM, "starting")
    for manifest in _pod():
        _create(api, manifest)
    ca = CA.create(PROGRAM, _VALID)
    pair = ca.issue(PROGRAM, ips=[ports.HOST], server=True, valid=_VALID)
    certificates = cluster.path / PROGRAM
    certificates.mkdir(mode=0o700)
    atomic_files.write_private(certificates / "tls.crt", pair.cert_pem)
    atomic_files.write_private(certificates / "tls.key", pair.key_pem)
    port, health, metrics = cluster.free_ports(3)
    flags = {
        "kubeconfig": cluster.kubeconfig,
        "host": ports.HOST,
        "port": port,
        "cert-dir": certificates,
        "disable-cert-rotation": "true",
        # Otherwise Gatekeeper also makes admission policies, which outlive it.
        "default-create-vap-for-templates": "false",
        "default-create-vap-binding-for-constraints": "false",
        "disable-opa-builtin": "{http.send}",  # as in its Helm chart
        "health-addr": f"{ports.HOST}:{health}",
        "metrics-backend": "prometheus",
        "prometheus-port": metrics,
        "log-level": "WARNING",
    }
    argv: list[str | Path] = [program, *(f"--{name}={value}" for name, value in flags.items())]
    argv += [f"--operation={operation}" for operation in _OPERATIONS]
    environment = {"POD_NAME": PROGRAM, "POD_NAMESPACE": NAMESPACE, "NAMESPACE": NAMESPACE}
    # Its port is open before it has read its policies.
    ready = f"http://{ports.HOST}:{health}/readyz"
    cluster.start_server(PROGRAM, argv, env=environment, ready=ready, deadline=_DEADLINE)
    for manifest in webhooks(f"https://{ports.HOST}:{port}", ca.cert_pem):
        _create(api, manifest)
    progress.finish(PROGRAM, "ready")


def webhooks(url: str, ca: bytes) -> list[dict[str, Any]]:
    """The webhook configurations that Gatekeeper's Helm chart makes of values.yaml, for a
    Gatekeeper at `url`.
    """
    values = installation.values()
    manifests = []
    for phase, path in _PATHS.items():
        given = {
            key.removeprefix(f"{phase}Webhook"): value
            for key, value in values.items()
            if key.startswith(phase)
        }
        webhook = {
            "name": f"{'mutation' if phase == 'mutating' else 'validation'}.gatekeeper.sh",
            "clientConfig": {
                "url": url + path,
                "caBundle": base64.b64encode(ca).decode(),
            },
            "rules": given["CustomRules"],
            "matchPolicy": "Exact",
            "matchConditions": [
                *given.get("MatchConditions", ()),
                {"name": CONDITION, "expression": f"'{GROUP}' in request.userInfo.groups"},
            ],
            "failurePolicy": given["FailurePolicy"],
            "sideEffects": "None",
            "timeoutSeconds": 30,  # the machine may be busy
            "admissionReviewVersions": ["v1"],
        }
        if "ReinvocationPolicy" in given:
            webhook["reinvocationPolicy"] = given["ReinvocationPolicy"]
        manifests.append(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": f"{phase.capitalize()}WebhookConfiguration",
                "metadata": {"name": WEBHOOKS},
                "webhooks": [webhook],
            }
        )
    return manifests


def _pod() -> list[dict[str, Any]]:
    """The pod that Gatekeeper believes to run in, with its namespace. What it reports of each
    policy belongs to this pod: Kubernetes would delete that without one.
    """
    unscheduled = {
        "schedulerName": "nobody",
        "automountServiceAccountToken": False,
        "containers": [{"name": PROGRAM, "image": PROGRAM}],
    }
    namespaced = {"namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", **namespaced},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": PROGRAM, **namespaced},
            "spec": unscheduled,
        },
    ]


def _create(api: Objects, manifest: dict[str, Any]) -> None:
    query = {"fieldValidation": "Strict"}
    path = path_of(manifest, manifest["metadata"].get("namespace"))
    answer = api.request("POST", path, manifest, query=query)
    if not answer.ok and answer.status != 409:  # a controller also creates service accounts
        what = f"{manifest['kind']} {manifest['metadata']['name']}"
        raise FairleadError(f"the API server refuses {what}: {answer.message}")

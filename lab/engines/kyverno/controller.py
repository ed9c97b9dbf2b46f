"""Runs Kyverno's admission controller beside an embedded cluster, outside of it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from fairlead.clusters.embedded import ports
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.programs import toolchain
from lab.engines.live import clusters, custom_resources
from lab.engines.live.worlds import create

PROGRAM = "kyverno"
_ADMISSION = "admissionregistration.k8s.io/v1"
_MODULE = "github.com/kyverno/kyverno"
_NAMESPACE = "kyverno"
_SERVICE = "kyverno-svc"
_CONFIGURATION = "kyverno"
_METRICS = "kyverno-metrics"
_SECRET = f"{_SERVICE}.{_NAMESPACE}.svc.kyverno-tls"
_DEADLINE = 180.0
"""Seconds within which it registers its webhooks. It takes 6, and much longer on a busy machine."""

# It reads them from its pod's environment.
_ENVIRONMENT = {
    "KYVERNO_NAMESPACE": _NAMESPACE,
    "KYVERNO_POD_NAME": "kyverno-0",
    "KYVERNO_DEPLOYMENT": "kyverno",
    "KYVERNO_SVC": _SERVICE,
    "KYVERNO_SERVICEACCOUNT_NAME": "kyverno",
    "INIT_CONFIG": _CONFIGURATION,
    "METRICS_CONFIG": _METRICS,
}


def definitions(progress: Progress) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of Kyverno, from the sources that it is built from. Raises
    FairleadError.
    """
    folder = toolchain.sources(PROGRAM, _MODULE, progress) / "config" / "crds"
    # 6 MB, for which the loader in C takes 2 s, and the one with lines of this package 10.
    return [
        document
        for path in sorted(folder.rglob("*.yaml"))
        for document in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    ]


@contextmanager
def running(progress: Progress) -> Iterator[BareCluster]:
    """A new embedded cluster with nodes, whose API server asks Kyverno about its policies. There
    are none yet. Raises FairleadError.
    """
    toolchain.ensure([PROGRAM], progress)  # before the cluster, as it takes minutes
    with clusters.bare(progress) as cluster:
        start(cluster, clusters.api(cluster), progress)
        yield cluster


def start(cluster: BareCluster, api: Objects, progress: Progress) -> None:
    """Start Kyverno, which ends with the cluster; returns when its API server asks Kyverno about
    policies. Raises FairleadError.
    """
    program = toolchain.ensure([PROGRAM], progress)[PROGRAM]
    progress.update(PROGRAM, "creating its kinds")
    custom_resources.serve(api, definitions(progress))
    for manifest in _objects():
        create(api, path_of(manifest, manifest["metadata"].get("namespace")), manifest)
    progress.update(PROGRAM, "starting")
    _start(cluster, program)
    for kind in ("Mutating", "Validating"):
        path = path_of(
            {"apiVersion": _ADMISSION, "kind": f"{kind}WebhookConfiguration"},
            None,
            f"kyverno-policy-{kind.lower()}-webhook-cfg",
        )
        waiting.until(
            functools.partial(_exists, api, path),
            deadline=_DEADLINE,
            what=f"Kyverno registers its webhooks (see {cluster.log(PROGRAM)})",
        )
    waiting.until(
        functools.partial(_answers, api),
        deadline=_DEADLINE,
        what=f"Kyverno serves its webhooks (see {cluster.log(PROGRAM)})",
    )
    progress.finish(PROGRAM, "ready")


def _start(cluster: BareCluster, program: Path) -> None:
    port, metrics = cluster.free_ports(2)
    argv = [str(program), *_arguments(cluster.kubeconfig, port, metrics)]
    ready = f"tcp://{ports.HOST}:{port}"
    cluster.start_server(PROGRAM, argv, env=_ENVIRONMENT, ready=ready, deadline=_DEADLINE)


def _exists(api: Objects, path: str) -> bool:
    return bool(api.request("GET", path).body.get("webhooks"))


def _answers(api: Objects) -> bool:
    """Whether Kyverno admits a policy; it registers its webhooks before it has a certificate."""
    version = "policies.kyverno.io/v1"
    policy = {
        "apiVersion": version,
        "kind": "ValidatingPolicy",
        "metadata": {"name": "fairlead-verify-ready"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ]
            },
            "validations": [{"expression": "true", "message": "never"}],
        },
    }
    path = f"/apis/{version}/validatingpolicies"
    return api.request("POST", path, policy, query={"dryRun": "All"}).ok


def _objects() -> Iterator[dict[str, Any]]:
    """What it needs in the cluster. By these settings it leaves no request alone."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    for name, data in ((_CONFIGURATION, {"resourceFilters": ""}), (_METRICS, {})):
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": _NAMESPACE},
            "data": data,
        }


def _arguments(kubeconfig: Path, port: int, metrics: int) -> list[str]:
    flags = {
        "kubeconfig": kubeconfig,
        "serverIP": f"{ports.HOST}:{port}",
        "webhookServerHost": ports.HOST,
        "webhookServerPort": port,
        "caSecretName": f"{_SECRET}-ca",
        "tlsSecretName": f"{_SECRET}-pair",
        "tlsKeyAlgorithm": "ECDSA",
        # How long the API server waits until it has compiled a new policy. It is the longest time.
        "webhookTimeout": 30,
        # Without these, it listens on port 8000 of all addresses, even if metrics are off.
        "disableMetrics": "true",
        "metricsHost": ports.HOST,
        "metricsPort": metrics,
        "controllerRuntimeMetricsAddress": "0",
        "admissionReports": "false",
        "omitEvents": "PolicyViolation,PolicyApplied,PolicyError,PolicySkipped",
        # It ends if it cannot renew its lease within five of these, as on a busy machine.
        "leaderElectionRetryPeriod": "20s",
        "clientRateLimitQPS": 500,
        "clientRateLimitBurst": 1000,
    }
    return [f"--{name}={value}" for name, value in flags.items()]

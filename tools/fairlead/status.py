"""What runs in a cluster and what it serves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fairlead import certificates, kube, serving
from fairlead.clusters.base import Cluster
from fairlead.credentials import RENEW
from fairlead.settings import NAMESPACE


def status(cluster: Cluster) -> dict[str, Any]:
    """The cluster's state: {name, cluster, kubeconfig, deployed, engine, sidecar, opa, policies, certificates, ...}.

    `deployed` is whether anything of Fairlead is there, `opa` is a list of {url, ca, pid, ready, revision},
    `policies` of {name, status, error}, `certificates` of {name, notAfter (RFC 3339), warning (None until 30 days
    before)}, `servers` of {name, pid, restarts}. Raises FairleadError where the API server does not answer.
    """
    objects = kube.Objects(kube.connect(cluster.kubeconfig))
    credentials = serving.credentials(objects)
    token = credentials.token if credentials else None
    states = [serving.served(opa, token) for opa in cluster.opas()]
    policies = serving.policies(objects) if objects.get("v1", "Namespace", NAMESPACE) else []
    dated = {} if credentials is None else {"opa-tls": credentials.certificate, "opa-tls-ca": credentials.ca}
    return {
        "name": cluster.name,
        "cluster": cluster.kind,
        "kubeconfig": str(cluster.kubeconfig),
        "deployed": credentials is not None or bool(policies),
        "engine": "opa",
        "sidecar": cluster.sidecar.name,
        "opa": [
            {
                "url": state.opa.url,
                "ca": str(state.opa.ca),
                "pid": state.opa.pid,
                "ready": state.ready,
                "revision": state.revision,
            }
            for state in states
        ],
        "policies": policies,
        "certificates": [
            {"name": name, "notAfter": certificates.not_after(pem).isoformat(), "warning": _warning(pem)}
            for name, pem in dated.items()
        ],
        "servers": [
            {"name": name, "pid": server["pid"], "restarts": server["restarts"]}
            for name, server in cluster.servers().items()
        ],
    }


def _warning(pem: bytes) -> str | None:
    left = certificates.not_after(pem) - datetime.now(UTC)
    if left > RENEW:
        return None
    days = f"{left.days} days left" if left > timedelta(0) else "has ended"
    return f"{days}: `fairlead rotate cert`, or `fairlead deploy`, replaces it"

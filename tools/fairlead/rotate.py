"""Replaces OPA's token or certificate, authority included, without one refused request.

Each step widens what is accepted before it changes what is used, and narrows only when all use the new; whoever is
interrupted half-way leaves both accepted, and the next rotation ends it.
"""

from __future__ import annotations

import functools
import hashlib
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from fairlead import certificates, kube, policy, serving, waiting
from fairlead.clusters.base import Cluster
from fairlead.credentials import Credentials
from fairlead.errors import FairleadError, UsageError
from fairlead.opa_api import OpaApi, lets_in
from fairlead.progress import Progress
from fairlead.settings import NAMESPACE

DEADLINE = 180.0
"""Seconds that a step may take everywhere; a kubelet refreshes a mounted Secret within a minute or two."""

SETTLE = 2.0
"""Seconds in which every API server sees a changed webhook; nothing tells when it has."""


def token(cluster: Cluster, *, progress: Progress) -> dict[str, Any]:
    """Replace the token that OPA's API takes. Returns {digest}: the first 12 digits of the new one's SHA-256.

    Raises FairleadError where a step is not done in time: then both are valid, and a further rotation ends it.
    """
    objects, credentials = _deployed(cluster)
    old, new = credentials.token, Credentials.fresh().token

    def publish(used: str, accepted: list[str]) -> None:
        guards = {name: text.encode() for name, text in policy.guards(accepted).items()}
        _publish(cluster, objects, "opa-token", {"token": used.encode(), **guards})

    progress.update("token", "making OPA accept a new one")
    publish(old, [old, new])
    _every(cluster.opas(), lambda opa: _accepts(opa, new), "every OPA accepts the new token")
    progress.update("token", "handing it to the sidecars")
    publish(new, [old, new])
    _sidecars(cluster, "token", digest(new.encode()))
    progress.update("token", "making OPA refuse the old one")
    publish(new, [new])
    _every(cluster.opas(), lambda opa: not _accepts(opa, old), "every OPA refuses the old token")
    progress.update("token", "rotated")
    return {"digest": digest(new.encode())}


def certificate(cluster: Cluster, *, progress: Progress) -> dict[str, Any]:
    """Replace OPA's certificate and the authority that issued it. Returns {notAfter} (RFC 3339).

    Raises FairleadError where a step is not done in time: then both are trusted, and a further rotation ends it.
    """
    objects, credentials = _deployed(cluster)
    fresh = Credentials.fresh()
    both = credentials.ca + fresh.ca

    def publish(served: Credentials, trusted: bytes) -> None:
        parts = {"tls.crt": served.certificate, "tls.key": served.key, "ca.crt": trusted}
        _publish(cluster, objects, "opa-tls", parts)
        _trust(objects, trusted)
        _sidecars(cluster, "ca", digest(trusted))

    progress.update("certificate", "making everyone trust a new authority")
    publish(credentials, both)
    time.sleep(SETTLE)
    progress.update("certificate", "serving with the new certificate")
    publish(fresh, both)
    leaf = ssl.PEM_cert_to_DER_cert(fresh.certificate.decode())
    everyone = [*cluster.opas(), *cluster.sidecars()]
    _every(everyone, lambda server: _serves(server.url, leaf), "the new certificate is served everywhere")
    progress.update("certificate", "making everyone distrust the old authority")
    publish(fresh, fresh.ca)
    progress.update("certificate", "rotated")
    return {"notAfter": certificates.not_after(fresh.certificate).isoformat()}


def digest(data: bytes) -> str:
    """What tells a credential without telling it: the first 12 hex digits of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:12]


def _deployed(cluster: Cluster) -> tuple[kube.Objects, Credentials]:
    objects = kube.Objects(kube.connect(cluster.kubeconfig))
    credentials = serving.credentials(objects)
    if credentials is None:
        raise UsageError(f"cluster {cluster.name} has no token and certificate to rotate: run `fairlead deploy`")
    return objects, credentials


def _publish(cluster: Cluster, objects: kube.Objects, name: str, parts: dict[str, bytes]) -> None:
    """Put `parts` into the Secret `name`, and bring it to where the pods have it mounted."""
    found = objects.get("v1", "Secret", name, NAMESPACE)
    kind = found["type"] if found else "Opaque"
    data = {key: b64encode(value).decode() for key, value in parts.items()}
    metadata = {"name": name, "namespace": NAMESPACE}
    objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data})
    cluster.refresh({name: parts})


def _trust(objects: kube.Objects, ca: bytes) -> None:
    """Make the API server verify OPA by `ca`."""
    version = "admissionregistration.k8s.io/v1"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        found = objects.get(version, kind, "fairlead")
        if found is None:
            raise FairleadError(f"there is no {kind} fairlead: run `fairlead deploy`")
        for webhook in found["webhooks"]:
            webhook["clientConfig"]["caBundle"] = b64encode(ca).decode()
        metadata = {"name": "fairlead", "labels": found["metadata"].get("labels") or {}}
        objects.apply({"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": found["webhooks"]})


def _every(servers: Iterable[Any], holds: Callable[[Any], bool], what: str) -> None:
    for server in servers:
        waiting.until(functools.partial(holds, server), deadline=DEADLINE, what=f"{what} ({server.url})")


def _sidecars(cluster: Cluster, key: str, value: str) -> None:
    """Return when every sidecar says that it uses the credential `key` with the digest `value`."""
    _every(cluster.sidecars(), lambda s: serving.health(s).get(key) == value, f"every sidecar uses the new {key}")


def _accepts(opa: Any, value: str) -> bool:
    """Whether this OPA lets a caller with the token `value` in. Raises FairleadError where it cannot be asked."""
    return lets_in(OpaApi(opa.url, ca=opa.ca, token=value))


def _serves(url: str, leaf: bytes) -> bool:
    """Whether the server at `url` shows the certificate `leaf` (DER)."""
    address = urlsplit(url)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is compared, whole
    try:
        with (
            socket.create_connection((address.hostname, address.port), 5) as raw,
            context.wrap_socket(raw, server_hostname=address.hostname) as secure,
        ):
            return secure.getpeercert(binary_form=True) == leaf
    except OSError as error:
        raise FairleadError(f"{url}: {error}") from error

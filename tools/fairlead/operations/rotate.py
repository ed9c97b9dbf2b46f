"""Replaces a token of OPA or its certificate, its CA included, without one refused request. Where
the settings of the cluster are an object, the controller does it.

Each step first widens what is accepted, then changes what is used, and narrows what is accepted
only when everyone uses the new one. After an interruption both are accepted, and the next rotation
completes the change.
"""

from __future__ import annotations

import functools
import secrets
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from fairlead.clusters.base import Cluster, OpaServer
from fairlead.common import texts, waiting
from fairlead.common.digests import digest
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Credentials, Tls, fresh_token, scoped_data
from fairlead.deployment.names import (
    NAMESPACE,
    OPA_ENGINE,
    TLS_SECRET,
    TOKEN_SECRET,
    scoped_secret,
)
from fairlead.keeper import renewal_steps, servers
from fairlead.keeper.lease import Lease
from fairlead.keeper.trust import Deployed
from fairlead.kube import api_requests, clients
from fairlead.opa.api import lets_in, opens
from fairlead.operations import deployed_state, object_following
from fairlead.pki import certificates
from fairlead.policy import bundles
from fairlead.settings.services import SCOPES, Service

_TOKEN, _RETIRE, _CERTIFICATE = "token", "retire", "cert"
"""What `here` takes."""
_ISSUED = "cert-manager.io/certificate-name"

DEADLINE = 180.0
"""Seconds in which a step has to be done everywhere; a kubelet refreshes a mounted Secret within a
minute or two."""


def token(cluster: Cluster, *, progress: Progress) -> dict[str, Any]:
    """Replace the token of OPA's API. Returns {digest}: the first 12 digits of the new token's
    SHA-256.

    Raises FairleadError if a step is not done in time: both tokens are valid then, and the next
    rotation completes the change.
    """
    return _rotated(cluster, _TOKEN, progress)


def scoped_token(
    cluster: Cluster, name: str, *, retire: bool = False, progress: Progress
) -> dict[str, Any]:
    """Replace the token of the scope `name`. The one before stays valid until the next rotation, as
    nobody can tell when its callers have the new one; with `retire`, it is refused now instead.

    Returns {scope, digest, previous}: the first 12 digits of the SHA-256 of the token in use and of
    the one before, None if that is not valid. Raises as `token`, and UsageError if the deployment
    has no token of the scope.
    """
    result = _rotated(cluster, f"{_RETIRE if retire else _TOKEN}/{name}", progress)
    return {"scope": name, "digest": result["digest"], "previous": result.get("previous")}


def certificate(cluster: Cluster, *, progress: Progress) -> dict[str, Any]:
    """Replace OPA's certificate and its CA. Returns {notAfter} (RFC 3339).

    Waits while the cluster itself renews it. Raises UsageError if something else renews it (see
    `kept_by`), FairleadError if a step is not done in time: both are trusted then, and the next
    rotation completes the change.
    """
    return _rotated(cluster, _CERTIFICATE, progress)


def _rotated(cluster: Cluster, subject: str, progress: Progress) -> dict[str, Any]:
    """Have the controller rotate it, where it follows objects. Beside a sidecar that reads
    credentials only at its start, pods have to be replaced, which the controller cannot do.
    """
    if cluster.sidecar.rereads and object_following.followed(cluster.objects()) is not None:
        return object_following.rotate(cluster, subject, progress)
    with alone(cluster) as deployed:
        return here(cluster, deployed, subject, progress=progress)


def here(
    cluster: Cluster, deployed: Deployed, subject: str, *, progress: Progress
) -> dict[str, Any]:
    """Rotate `subject` in this process: `token` or `cert`, or `token/SCOPE` or `retire/SCOPE`.
    Nobody else may change the objects of the certificate (`deployed`) meanwhile. Returns and raises
    what `token`, `certificate` and `scoped_token` do, and UsageError for another text.
    """
    action, _, scope = subject.partition("/")
    if subject == _TOKEN:
        return _token(cluster, progress)
    if subject == _CERTIFICATE:
        return _certificate(cluster, deployed, progress)
    if action in (_TOKEN, _RETIRE) and scope in SCOPES:
        return _scoped_token(cluster, scope, action == _RETIRE, progress)
    raise UsageError(
        f"{subject!r} cannot be rotated: there are {_TOKEN}, {_CERTIFICATE}, {_TOKEN}/SCOPE and "
        f"{_RETIRE}/SCOPE, with one of the scopes {', '.join(SCOPES)}"
    )


def _token(cluster: Cluster, progress: Progress) -> dict[str, Any]:
    _require_opa(cluster)
    objects, credentials = _deployed(cluster)
    old, new = credentials.token, fresh_token()

    def publish(token_: str, accepted: list[str]) -> None:
        _publish_tokens(cluster, objects, token_, accepted, credentials.scoped)

    progress.update("token", "making OPA accept a new one")
    publish(old, [old, new])
    _every(cluster.opas(), lambda opa: _accepts(opa, new), "every OPA accepts the new token")
    progress.update("token", "handing it to the sidecars")
    publish(new, [old, new])
    _sidecars(cluster, "token", digest(new.encode()))
    progress.update("token", "making OPA refuse the old one")
    publish(new, [new])
    _every(cluster.opas(), lambda opa: not _accepts(opa, old), "every OPA refuses the old token")
    progress.finish("token", "rotated")
    return {"digest": digest(new.encode())}


def _scoped_token(cluster: Cluster, name: str, retire: bool, progress: Progress) -> dict[str, Any]:
    _require_opa(cluster)
    scope = SCOPES[name]
    objects, before = _deployed(cluster)
    if name not in before.scoped:
        raise UsageError(
            f"cluster {cluster.name} has no token of the scope {name}: set `{name}: true` in "
            "fairlead.yaml, and run `fairlead deploy`"
        )
    valid = before.scoped[name]
    after = valid[:1] if retire else before.renewing([name]).scoped[name]
    refused = valid[1:]

    def agrees(opa: OpaServer) -> bool:
        return all(_opens(opa, scope, token) for token in after) and not any(
            _opens(opa, scope, token) for token in refused
        )

    progress.update("token", "making OPA accept the valid ones")
    scoped = {**before.scoped, name: after}
    _publish_tokens(cluster, objects, before.token, [before.token], scoped)
    _every(cluster.opas(), agrees, f"every OPA knows the tokens of the scope {name}")
    secret = {key: token.encode() for key, token in scoped_data(after).items()}
    _apply_secret(objects, scoped_secret(name), secret)
    progress.finish("token", "retired" if retire else "rotated")
    return dict(
        zip(("digest", "previous"), (digest(token.encode()) for token in after), strict=False)
    )


def _require_opa(cluster: Cluster) -> None:
    if cluster.sidecar.engine != OPA_ENGINE:
        raise UsageError(
            f"the token is for OPA's API, and {cluster.sidecar.engine} enforces the policies: "
            "there is none to rotate"
        )


def _certificate(cluster: Cluster, deployed: Deployed, progress: Progress) -> dict[str, Any]:
    secret = deployed.secret()
    if secret is None or secret.tls is None:
        raise UsageError(
            f"cluster {cluster.name} has no certificate to rotate: run `fairlead deploy`"
        )
    if deployed_state.certificates(cluster.objects()).by == "cert-manager":
        raise UsageError(
            f"cert-manager renews the certificate: `cmctl renew -n {NAMESPACE} {TLS_SECRET}` "
            "has it do so now"
        )
    if secret.kept_by:
        raise UsageError(
            f"`{secret.kept_by}` keeps the certificate in a file, and would undo this: renew "
            "it there"
        )
    tls = _replace(cluster, deployed, progress)
    for record in deployed.disabled().values():
        progress.warn(record.sentence)
    return {"notAfter": texts.time(certificates.not_after(tls.certificate))}


def if_due(cluster: Cluster, before: timedelta, *, progress: Progress) -> None:
    """Replace the certificate if it is due; see Tls.is_due. Raises as `certificate`."""
    credentials = deployed_state.credentials(cluster.objects())
    if credentials is None or not credentials.tls.is_due(before):
        return
    with alone(cluster) as deployed:
        secret = deployed.secret()  # checked again: a controller may have done it meanwhile
        if secret and secret.tls and secret.tls.is_due(before):
            _replace(cluster, deployed, progress)


def require_cert_manager(cluster: Cluster) -> None:
    """Raises UsageError if the cluster does not serve cert-manager's API."""
    kinds = {(kind.api_version, kind.name) for kind in cluster.objects().kinds()}
    if not {("cert-manager.io/v1", "Certificate"), ("cert-manager.io/v1", "Issuer")} <= kinds:
        raise UsageError(
            f"cluster {cluster.name} has no cert-manager (cert-manager.io/v1 is not served): "
            "install it, or take the "
            "setting `certificates: cert-manager` out, and the cluster renews certificates by "
            "itself"
        )


def issued(objects: clients.Objects, *, progress: Progress) -> Tls:
    """The certificate that cert-manager issues for the deployed Certificate. Raises
    FairleadError.
    """
    progress.update("certificate", "waiting until cert-manager has issued it")

    def look() -> Tls | None:
        secret = objects.get("v1", "Secret", TLS_SECRET, NAMESPACE)
        if not secret or (secret["metadata"].get("annotations") or {}).get(_ISSUED) != TLS_SECRET:
            return None
        return Tls.kept(secret.get("data"))

    expectation = (
        f"cert-manager has issued Certificate {TLS_SECRET} (`kubectl describe certificate -n "
        f"{NAMESPACE}`)"
    )
    tls = waiting.until(look, deadline=DEADLINE, what=expectation, pause=0.2)
    progress.finish("certificate", "issued by cert-manager")
    return tls


@contextmanager
def alone(cluster: Cluster, *, forbidden: bool = True) -> Iterator[Deployed]:
    """The objects of the certificate, which nobody else changes during the block: neither a
    controller nor a command.

    Before the first deployment there is no Lease, so others cannot be kept out; the attribute
    `alone` of the objects says so. `forbidden` as for Lease.held. Raises FairleadError if somebody
    else changes the objects for minutes.
    """
    api = clients.Objects(cluster.kubeconfig, timeout=api_requests.BRIEF)
    lease = Lease(api, f"{socket.gethostname()}-{secrets.token_hex(4)}")
    with lease.held(forbidden=forbidden) as leading:
        yield Deployed(api, manager=clients.FIELD_MANAGER, check=lease.check, alone=leading)


def _replace(cluster: Cluster, deployed: Deployed, progress: Progress) -> Tls:
    valid = deployed_state.certificates(cluster.objects()).valid
    return renewal_steps.replaced(deployed, _Servers(cluster), valid, progress=progress)


class _Servers:
    """A cluster's servers, as its administrator reaches them; see renewal.Servers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def bring(self, tls: Tls) -> None:
        self._cluster.refresh({TLS_SECRET: tls.files})

    def trust(self, cas: bytes) -> bool:
        _sidecars(self._cluster, "ca", digest(cas))
        return False  # `bring` replaces pods, and has API servers leave them

    def serve(self, certificate: bytes) -> None:
        leaf = ssl.PEM_cert_to_DER_cert(certificate.decode())
        everyone = [*self._cluster.opas(), *self._cluster.sidecars()]
        _every(
            everyone,
            lambda server: _shows(server.url, leaf),
            "the new certificate is served everywhere",
        )


def _deployed(cluster: Cluster) -> tuple[clients.Objects, Credentials]:
    objects = cluster.objects()
    credentials = deployed_state.credentials(objects)
    if credentials is None:
        raise UsageError(
            f"cluster {cluster.name} has no token and certificate to rotate: run `fairlead deploy`"
        )
    return objects, credentials


def _publish_tokens(
    cluster: Cluster,
    objects: clients.Objects,
    token: str,
    accepted: list[str],
    scoped: bundles.ScopedTokens,
) -> None:
    """Have sidecars use the token `token`, and OPAs accept just these tokens."""
    modules = {name: text.encode() for name, text in bundles.file_modules(accepted, scoped).items()}
    parts = {"token": token.encode(), **modules}
    _apply_secret(objects, TOKEN_SECRET, parts)
    cluster.refresh({TOKEN_SECRET: parts})


def _apply_secret(objects: clients.Objects, name: str, parts: Mapping[str, bytes]) -> None:
    """Make `parts` the data of the Secret `name`."""
    secret = objects.get("v1", "Secret", name, NAMESPACE)
    kind = secret["type"] if secret else "Opaque"
    data = {key: b64encode(value).decode() for key, value in parts.items()}
    metadata = {"name": name, "namespace": NAMESPACE}
    objects.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    )


def _every(servers: Iterable[Any], holds: Callable[[Any], bool], expectation: str) -> None:
    for server in servers:
        waiting.until(
            functools.partial(holds, server),
            deadline=DEADLINE,
            what=f"{expectation} ({server.url})",
        )


def _sidecars(cluster: Cluster, key: str, value: str) -> None:
    """Return when every sidecar reports that it uses the credential `key` with the digest
    `value`.
    """
    _every(
        cluster.sidecars(),
        lambda s: deployed_state.health(s).get(key) == value,
        f"every sidecar uses the new {key}",
    )


def _accepts(opa: Any, value: str) -> bool:
    """Whether this OPA accepts the token `value`. Raises FairleadError if it cannot be reached."""
    return lets_in(opa.api(value))


def _opens(opa: OpaServer, scope: Service, value: str) -> bool:
    """Whether the token `value` opens all requests of the scope at this OPA. Raises
    FairleadError if it cannot be reached.
    """
    return opens(opa.api(value), scope.requests)


def _shows(url: str, leaf: bytes) -> bool:
    """Whether the server at `url` presents the certificate `leaf` (DER)."""
    address = urlsplit(url)
    return servers.shown(str(address.hostname), int(address.port or 443)) == leaf

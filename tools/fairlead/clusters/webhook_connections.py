"""Makes API servers reconnect to OPA before a roll-out ends the old pods.

An API server keeps its connections to a webhook and goes on using them, even to a pod that no
Service routes to any more. OPA closes them when it ends, and a request that arrives at that moment
fails: HTTP/1.1 cannot announce a close. An API server has separate connections for each
configuration of a webhook (k8s.io/apiserver/pkg/util/webhook). So a comment in the CA bundle, which
nothing reads, is enough to make it open new ones. opa_deployment.py decides when.
"""

from __future__ import annotations

import functools
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fairlead.common import waiting
from fairlead.deployment.names import WEBHOOKS
from fairlead.kube import clients
from fairlead.kube.errors import Refused

_VERSION = "admissionregistration.k8s.io/v1"
_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_PATIENCE = 15.0  # seconds; a renewal of the certificate changes the webhooks twice
_COMMENT = re.compile(rb"# connections since ([^\n]*)\n")
_COMMENTS = re.compile(rb"^#[^\n]*\n", re.MULTILINE)  # also the controller's


def renew(objects: clients.Objects, moment: datetime) -> None:
    """Have every API server open new connections, as soon as it sees the change.

    `moment` is what `since` returns from then on, by the cluster's clock and not this machine's.
    Raises FairleadError.
    """
    comment = f"# connections since {moment.isoformat()}\n".encode()
    for kind in _KINDS:
        is_written = functools.partial(_written, objects, kind, comment)
        waiting.until(is_written, deadline=_PATIENCE, what=f"{kind} {WEBHOOKS} was changed")


def since(objects: clients.Objects) -> datetime:
    """The moment of the last `renew`; the earliest possible time if any webhook lacks its
    comment. Raises FairleadError.
    """
    configurations = [
        configuration for kind in _KINDS if (configuration := objects.get(_VERSION, kind, WEBHOOKS))
    ]
    bundles = [
        _bundle(webhook)
        for configuration in configurations
        for webhook in configuration.get("webhooks") or ()
    ]
    comments = [_COMMENT.search(bundle) for bundle in bundles]
    moments = [datetime.fromisoformat(comment[1].decode()) for comment in comments if comment]
    return (
        min(moments)
        if moments and len(moments) == len(bundles)
        else datetime.min.replace(tzinfo=UTC)
    )


def _written(objects: clients.Objects, kind: str, comment: bytes) -> bool:
    """Write the comment; False if somebody changed the CA bundles meanwhile, such as a
    renewal of the certificate.
    """
    configuration = objects.get(_VERSION, kind, WEBHOOKS)
    if configuration is None or _injected(configuration):
        return True
    manifest = _with(configuration, comment)
    manifest["metadata"]["resourceVersion"] = configuration["metadata"]["resourceVersion"]
    try:
        objects.apply(manifest)
    except Refused as error:
        if error.status != 409:
            raise
        return False
    return True


def with_deployed_comments(objects: clients.Objects, manifest: dict[str, Any]) -> dict[str, Any]:
    """`manifest` with the comments of the deployed webhooks: without them, API servers would use
    their old connections again.
    """
    if manifest["kind"] not in _KINDS or _injected(manifest):
        return manifest
    configuration = objects.get(_VERSION, manifest["kind"], manifest["metadata"]["name"])
    bundles = [_bundle(webhook) for webhook in (configuration or {}).get("webhooks", ())]
    lines = [line for bundle in bundles for line in _COMMENTS.findall(bundle)]
    comments = b"".join(dict.fromkeys(lines))
    return _with(manifest, comments) if comments else manifest


def _injected(configuration: Mapping[str, Any]) -> bool:
    """Whether cert-manager maintains the CA bundles: it would remove a comment."""
    return "cert-manager.io/inject-ca-from" in (configuration["metadata"].get("annotations") or {})


def _bundle(webhook: Mapping[str, Any]) -> bytes:
    """The CA bundle of a webhook, as PEM, with the comment if there is one."""
    return b64decode(webhook["clientConfig"].get("caBundle") or "")


def _with(configuration: Mapping[str, Any], comment: bytes) -> dict[str, Any]:
    metadata = {
        "name": configuration["metadata"]["name"],
        "labels": configuration["metadata"].get("labels") or {},
    }
    webhooks = []
    for webhook in configuration.get("webhooks") or ():
        client = webhook["clientConfig"]
        bundle = _COMMENT.sub(b"", _bundle(webhook))
        webhooks.append(
            {
                **webhook,
                "clientConfig": {**client, "caBundle": b64encode(bundle + comment).decode()},
            }
        )
    return {
        "apiVersion": _VERSION,
        "kind": configuration["kind"],
        "metadata": metadata,
        "webhooks": webhooks,
    }

"""Shows when Kyverno enforces policies, and what it knows about namespaces.

Nothing that Kyverno reports says since when API servers ask it about a policy. So two policies are
created after those that have to be in force. They concern nothing but ConfigMaps with a label of
their own, which are sent as dry runs. Kyverno learns of the policies of one kind in the order of
their changes, and all of a kind are in one webhook configuration.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fairlead.common import waiting
from fairlead.engines.kyverno.manifests import MUTATING, VALIDATING, VERSION, path
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from lab.engines.live.worlds import create

_LABEL = "fairlead.dev/verify-kyverno"
_MUTATED = "fairlead.dev/verify-kyverno-mutated"
_KNOWN = "fairlead verify: Kyverno knows this"
_DEADLINE = 300.0
"""Seconds within which Kyverno enforces all policies. It compiles each for some milliseconds, and
writes its webhooks again after each."""


class Marker:
    """Two policies of Kyverno, one of each kind, that are in force."""

    def __init__(self, api: Objects) -> None:
        self._api = api
        self._name = f"fairlead-verify-{secrets.token_hex(4)}"
        labels = f"Object{{metadata: Object.metadata{{labels: {{'{_MUTATED}': 'applied'}}}}}}"
        mutation = {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": labels},
        }
        validation = {
            "expression": "object.metadata.annotations != namespaceObject.metadata.labels",
            "message": _KNOWN,
        }
        self._policies = [
            self._policy(VALIDATING, {"validationActions": ["Deny"], "validations": [validation]}),
            self._policy(MUTATING, {"mutations": [mutation]}),
        ]

    def knows(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether Kyverno sees exactly these labels of the namespace."""
        expected = {**labels, "kubernetes.io/metadata.name": namespace}
        return _KNOWN in self._send(namespace, expected).message

    def _policy(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        matched = {
            "objectSelector": {"matchLabels": {_LABEL: self._name}},
            "resourceRules": [rule],
        }
        return {
            "apiVersion": VERSION,
            "kind": kind,
            "metadata": {"name": self._name},
            "spec": {"matchConstraints": matched, **spec},
        }

    def _wait(self) -> None:
        def in_force() -> bool:
            # Annotations that are the labels of no namespace, so that nothing refuses it.
            admitted = self._send("default", {_LABEL: "no label"}).body
            if _MUTATED not in (admitted.get("metadata", {}).get("labels") or {}):
                return False
            there = self._api.request("GET", "/api/v1/namespaces/default").body
            return self.knows("default", there["metadata"]["labels"])

        what = "Kyverno enforces the policies that were created"
        waiting.until(in_force, deadline=_DEADLINE, what=what)

    def _send(self, namespace: str, annotations: Mapping[str, str]) -> Response:
        metadata = {
            "name": "fairlead-verify",
            "labels": {_LABEL: self._name},
            "annotations": dict(annotations),
        }
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        query = {"dryRun": "All"}
        return self._api.request("POST", path_of(config_map, namespace), config_map, query=query)


@contextmanager
def placed(api: Objects) -> Iterator[Marker]:
    """A marker during the block, which begins once Kyverno enforces it, and so all policies that
    were there before. Raises FairleadError.
    """
    marker = Marker(api)
    try:
        for policy in marker._policies:
            create(api, path(policy), policy)
        marker._wait()
        yield marker
    finally:
        for policy in marker._policies:
            api.request("DELETE", f"{path(policy)}/{policy['metadata']['name']}")

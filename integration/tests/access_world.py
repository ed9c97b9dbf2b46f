"""Requests about transient role bindings in the name of users."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.kube import clients
from fairlead.kube.responses import Response

RBAC = "rbac.authorization.k8s.io"
GROUP = "access.fairlead.dev"
NAMESPACE = "shop"
SPEC = {
    "validFrom": "2026-11-21T10:00:00Z",
    "validUntil": "2026-11-21T11:00:00Z",
    "roleRef": {"kind": "ClusterRole", "name": "reader"},
    "subjects": [{"kind": "User", "name": "alice"}],
}
MERGE = "application/merge-patch+json"
BINDINGS = f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/rolebindings"


class Users:
    """Sends requests in the name of users. `boss` may bind the role `reader` in one namespace."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._api = clients.connect(kubeconfig)

    def __call__(
        self, user: str, method: str, path: str, body: Any = None, *, groups: tuple[str, ...] = ()
    ) -> Response:
        headers = {
            "Content-Type": MERGE if method == "PATCH" else "application/json",
            "Impersonate-User": user,
            **({"Impersonate-Group": groups[0]} if groups else {}),
        }
        url = f"{self._api.configuration.host}{path}"
        answer = self._api.call_api(method, url, headers, body)
        return Response(answer.status, json.loads(answer.read()), ())

    def create(self, user: str, name: str, *, kind: str = "", **spec: Any) -> Response:
        """Create a TransientRoleBinding, or a TransientClusterRoleBinding with the kind Cluster."""
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": f"Transient{kind}RoleBinding",
            "metadata": {"name": name},
            "spec": {**SPEC, **spec},
        }
        return self(user, "POST", path() if not kind else f"/apis/{GROUP}/v1/{CLUSTER}", body)

    def patch(self, user: str, name: str, body: Any, *, groups: tuple[str, ...] = ()) -> Response:
        return self(user, "PATCH", path(name), body, groups=groups)


CLUSTER = "transientclusterrolebindings"


def path(*parts: str) -> str:
    collection = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/transientrolebindings"
    return "/".join((collection, *parts))


def role(name: str, *rules: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def bound(kind: str, name: str, role_name: str, *users: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": NAMESPACE} if kind == "RoleBinding" else {})},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role_name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
    }

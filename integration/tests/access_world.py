"""Transient role bindings as users see them, on a cluster with its own controller or another."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from applied import namespace_manifest
from waits import until

from fairlead.access import requests
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError
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
        return Response.of(answer.response)

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


PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RIGHTS = [
    namespace_manifest(NAMESPACE),
    role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}),
    role("other", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}),
    role(
        "requester",
        {
            "apiGroups": [GROUP],
            "resources": ["transientrolebindings", CLUSTER],
            "verbs": ["create", "get", "list", "update", "patch", "delete"],
        },
        {
            "apiGroups": [RBAC],
            "resources": ["rolebindings"],
            "verbs": ["create", "get", "update", "patch", "delete"],
        },
    ),
    role(
        "binder", {"apiGroups": [RBAC], "resources": ["roles", "clusterroles"], "verbs": ["bind"]}
    ),
    bound("ClusterRoleBinding", "requesters", "requester", "boss", "temp"),
    bound("ClusterRoleBinding", "binders", "binder", "boss"),
]


def at(seconds: float) -> str:
    """The time so many seconds from now."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class World:
    """The cluster, with what users do and what is seen of it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.users = Users(cluster.kubeconfig)

    def create(
        self, name: str, begin: float, end: float, *, by: str = "boss", kind: str = "", **spec: Any
    ) -> None:
        """Create a transient binding with a window in seconds from now."""
        times = {"validFrom": at(begin), "validUntil": at(end)}
        wanted = {"subjects": [{"kind": "User", "name": name}], "requestedBy": by, **times, **spec}
        answer = self.users.create(by, name, kind=kind, **wanted)
        assert answer.ok, answer.message

    def create_until(self, event: str, name: str, seconds: float) -> None:
        """Create a transient binding that ends after `seconds`, and wait for an Event about it. If
        its window passes first, because the machine is busy, do both again with twice the time.
        """
        self.create(name, -1, seconds)
        until(
            lambda: event in self.events(name) or self.reason(name) == "Expired",
            what=f"{name}: {event}, or its window is over",
        )
        if event not in self.events(name):
            assert self.users("boss", "DELETE", path(name)).ok
            until(lambda: not self.users("boss", "GET", path(name)).ok, f"{name} is deleted")
            self.create_until(event, name, 2 * seconds)

    def can(self, user: str, namespace: str = NAMESPACE) -> bool:
        """Whether the user may list pods, by a real request and by asking, which have to agree."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        attributes = {"namespace": namespace, "resource": "pods", "verb": "list"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }

        def both() -> bool | None:
            before = self.users(user, "GET", path).ok
            answer = self.users(user, "POST", REVIEWS, review)
            allowed = bool(answer.body["status"]["allowed"])
            return allowed if before == allowed else None

        answers = []
        until(
            lambda: answers.append(both()) or answers[-1] is not None,  # type: ignore[func-returns-value]
            what=f"{user}'s request and its review agree",
        )
        return bool(answers[-1])

    def conditions(self, name: str) -> dict[str, Any]:
        """The conditions of a transient binding, by their types."""
        answer = self.users("boss", "GET", path(name))
        if not answer.ok:  # an API server that starts does not know yet what `boss` may do
            raise FairleadError(f"{name} cannot be read: {answer.body}")
        found = (answer.body.get("status") or {}).get("conditions") or []
        return {condition["type"]: condition for condition in found}

    def reason(self, name: str) -> str:
        """The reason of `effective`; empty if there is no status."""
        return str(self.conditions(name).get("effective", {}).get("reason", ""))

    def binding(self, name: str) -> Mapping[str, Any] | None:
        """The RoleBinding of this name."""
        return self.cluster.objects().get(f"{RBAC}/v1", "RoleBinding", name, NAMESPACE)

    def events(self, name: str) -> list[str]:
        """The reasons of the Events about a transient binding."""
        events = requests.history(self.cluster.objects())
        return [each["event"] for each in events if each["name"] == name]

"""The guards: who may change Fairlead's objects and the pool labels, on a real API server, with and
without OPA."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from applied import applied, namespace_manifest
from profiles import EVERYTHING as SETTINGS
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import (
    EXEMPT,
    NAMESPACE,
    POLICIES,
    RETRIES,
    REVISION_ANNOTATION,
    STATUS,
)
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, push, rotate, uninstall
from fairlead.policy.policy_set import PolicySet

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it takes guards and OPA away from a cluster of its own")

QUIET = Progress()
ADMISSION = "admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = f"/api/v1/namespaces/{NAMESPACE}"
POLICIES_URL = f"{OURS}/configmaps/{POLICIES}"
SIDECAR = f"system:serviceaccount:{NAMESPACE}:opa"
MERGE = "application/merge-patch+json"
DENIED = "denied request: "

Request = tuple[str, str, Any]
As = Callable[..., tuple[int, str]]

CONTAINER = {
    "name": "opa",
    "image": "opa:1",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
POD = {  # with the token mounted, and shown to the Service
    "metadata": {
        "name": "spy",
        "namespace": NAMESPACE,
        "labels": {"app.kubernetes.io/name": "opa"},
    },
    "spec": {
        "serviceAccountName": "opa",
        "containers": [CONTAINER],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    },
}
LABELS = {"metadata": {"labels": {"a": "b"}}}
RULES: dict[str, Any] = {"rules": []}
EVENT = {
    "metadata": {"name": "x"},
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.dev/x",
    "reportingInstance": "x",
    "action": "Looked",
    "reason": "Looked",
    "type": "Normal",
    "regarding": {"namespace": NAMESPACE},
}
QUESTION = {
    "metadata": {"namespace": NAMESPACE},
    "spec": {
        "user": "x",
        "resourceAttributes": {"namespace": NAMESPACE, "resource": "pods", "verb": "get"},
    },
}
LEASES, CLAIMS, OWN = (
    "/apis/coordination.k8s.io/v1",
    "/apis/resource.k8s.io/v1",
    "/apis/example.dev/v1",
)
CLAIM: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {"devices": {}}}
WIDGET = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "x"}}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
CHANGES: dict[str, tuple[str, Request]] = {
    "policies": (
        "fairlead-objects",
        ("PATCH", POLICIES_URL, {"data": {"main.rego": "package system"}}),
    ),
    "policies go": ("fairlead-objects", ("DELETE", POLICIES_URL, None)),
    "all policies go": ("fairlead-objects", ("DELETE", f"{OURS}/configmaps", None)),
    "further policies": (
        "fairlead-objects",
        ("POST", f"{OURS}/configmaps", {"metadata": {"name": "more"}}),
    ),
    "token": (
        "fairlead-objects",
        ("PATCH", f"{OURS}/secrets/opa-token", {"data": {"token": "AAAA"}}),
    ),
    "deployment": (
        "fairlead-objects",
        ("PATCH", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/opa", LABELS),
    ),
    "scale": (
        "fairlead-objects",
        (
            "PATCH",
            f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/opa/scale",
            {"spec": {"replicas": 3}},
        ),
    ),
    "service": (
        "fairlead-objects",
        ("PATCH", f"{OURS}/services/opa", {"spec": {"selector": {"a": "b"}}}),
    ),
    "account": ("fairlead-objects", ("DELETE", f"{OURS}/serviceaccounts/opa", None)),
    "account's token": (
        "fairlead-objects",
        ("POST", f"{OURS}/serviceaccounts/opa/token", {"spec": {"audiences": []}}),
    ),
    "pod": ("fairlead-objects", ("POST", f"{OURS}/pods", POD)),
    "exec": (
        "fairlead-objects",
        ("POST", f"{OURS}/pods/opa-0/exec?container=opa&command=sh&stdout=true", None),
    ),
    "portforward": ("fairlead-objects", ("POST", f"{OURS}/pods/opa-0/portforward", None)),
    "quota": (
        "fairlead-objects",
        ("POST", f"{OURS}/resourcequotas", {"metadata": {"name": "none"}}),
    ),
    "role": ("fairlead-objects", ("PATCH", f"{RBAC}/namespaces/{NAMESPACE}/roles/opa", RULES)),
    "binding": (
        "fairlead-objects",
        ("DELETE", f"{RBAC}/namespaces/{NAMESPACE}/rolebindings/opa", None),
    ),
    "budget": (
        "fairlead-objects",
        ("DELETE", f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/opa", None),
    ),
    "network": (
        "fairlead-objects",
        ("DELETE", f"/apis/networking.k8s.io/v1/namespaces/{NAMESPACE}/networkpolicies/opa", None),
    ),
    "lease": (
        "fairlead-objects",
        ("POST", f"{LEASES}/namespaces/{NAMESPACE}/leases", {"metadata": {"name": "x"}}),
    ),
    "claim": (
        "fairlead-objects",
        ("POST", f"{CLAIMS}/namespaces/{NAMESPACE}/resourceclaims", CLAIM),
    ),
    "custom resource": (
        "fairlead-objects",
        ("POST", f"{OWN}/namespaces/{NAMESPACE}/widgets", WIDGET),
    ),
    "namespace": ("fairlead-objects", ("PATCH", OURS, {"metadata": {"labels": {"a": "b"}}})),
    "namespace goes": ("fairlead-objects", ("DELETE", OURS, None)),
    "mutating webhook": (
        "fairlead-cluster-objects",
        ("DELETE", f"/apis/{ADMISSION}/mutatingwebhookconfigurations/fairlead", None),
    ),
    "validating webhook": (
        "fairlead-cluster-objects",
        ("PATCH", f"/apis/{ADMISSION}/validatingwebhookconfigurations/fairlead", {"webhooks": []}),
    ),
    "cluster role": (
        "fairlead-cluster-objects",
        ("PATCH", f"{RBAC}/clusterroles/fairlead-opa", RULES),
    ),
    "cluster binding": (
        "fairlead-cluster-objects",
        ("DELETE", f"{RBAC}/clusterrolebindings/fairlead-admin", None),
    ),
    "pool of a new namespace": (
        "fairlead-pool-label",
        (
            "POST",
            "/api/v1/namespaces",
            {"metadata": {"name": "new", "labels": {"agentpool": "pool1"}}},
        ),
    ),
    "pool added": (
        "fairlead-pool-label",
        ("PATCH", "/api/v1/namespaces/plain", {"metadata": {"labels": {"agentpool": "x"}}}),
    ),
    "pool changed": (
        "fairlead-pool-label",
        ("PATCH", "/api/v1/namespaces/mapped", {"metadata": {"labels": {"agentpool": "pool2"}}}),
    ),
    "pool changed by the way": (
        "fairlead-pool-label",
        (
            "PATCH",
            "/api/v1/namespaces/mapped/status",
            {"metadata": {"labels": {"agentpool": "pool2"}}},
        ),
    ),
    "pool removed": (
        "fairlead-pool-label",
        ("PATCH", "/api/v1/namespaces/mapped", {"metadata": {"labels": {"agentpool": None}}}),
    ),
}
GUARDS = sorted({guard for guard, _ in CHANGES.values()})


@pytest.fixture(scope="module")
def guarded(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The cluster, in which alice may do everything except administer Fairlead and set pools."""
    groups = [
        "",
        "apps",
        "policy",
        "networking.k8s.io",
        "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io",
        "coordination.k8s.io",
        "resource.k8s.io",
        "events.k8s.io",
        "authorization.k8s.io",
        "example.dev",
    ]
    everything = {"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}
    group = "rbac.authorization.k8s.io"
    rbac = {"apiVersion": f"{group}/v1", "metadata": {"name": "everything"}}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "everything"}
    users = [{"kind": "User", "name": name} for name in ("alice", SIDECAR)]
    manifests = (
        WIDGETS,
        {**rbac, "kind": "ClusterRole", "rules": [everything]},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users},
        namespace_manifest("plain"),
        namespace_manifest("mapped", agentpool="pool1"),
    )
    with applied(cluster.objects(), manifests):
        until(
            lambda: all(in_force(cluster, guard) for guard in GUARDS),
            what="the guards are in force",
        )
        yield cluster
    deploy.deploy(cluster, PolicySet.load(SETTINGS), progress=QUIET)


@pytest.fixture
def objects(guarded: EmbeddedCluster) -> clients.Objects:
    return guarded.objects()


@pytest.fixture
def sent(guarded: EmbeddedCluster) -> As:
    """Sends a request as a dry run in a user's name. Returns the status and the message."""
    return lambda request, user="alice", *groups: send(guarded, request, user, *groups)


def send(
    cluster: EmbeddedCluster, request: Request, user: str = "alice", *groups: str
) -> tuple[int, str]:
    status, message, _ = answered(
        cluster, request, {"Impersonate-User": user, "Impersonate-Group": ",".join(groups)}
    )
    return status, message


def answered(
    cluster: EmbeddedCluster, request: Request, headers: dict[str, str]
) -> tuple[int, str, Mapping[str, str]]:
    """The status, the message of a refusal, and the headers of the answer to a dry run."""
    api = clients.connect(cluster.kubeconfig)
    method, path, body = request
    dry = "" if "/pods/" in path else "?dryRun=All"  # what connects knows none
    kind = MERGE if method == "PATCH" else "application/json"
    headers = {"Content-Type": kind, **{name: value for name, value in headers.items() if value}}
    answer = api.call_api(
        method, f"{api.configuration.host}{path}{dry}", header_params=headers, body=body
    )
    document = json.loads(answer.read() or b"{}")
    return (
        answer.status,
        str(document.get("message")) if answer.status >= 300 else "",
        answer.headers,
    )


def in_force(cluster: EmbeddedCluster, guard: str) -> bool:
    request = next(request for name, request in CHANGES.values() if name == guard)
    return f"'{guard}'" in send(cluster, request)[1]


def refusals(sent: As) -> dict[str, str]:
    """The outcomes of the changes that alice may not make, as far as they were not refused
    correctly.
    """
    wrong = {}
    for name, (guard, request) in CHANGES.items():
        status, message = sent(request)
        way_out = (
            f"as a member of platform, or ask {SETTINGS.contact}"
            if guard != "fairlead-pool-label"
            else f"Have a member of capacity or platform set it: ask {SETTINGS.contact}"
        )
        if (
            status != 403
            or f"ValidatingAdmissionPolicy '{guard}'" not in message
            or f"{DENIED}alice may not" not in message
        ):
            wrong[name] = f"{status}: {message}"
        elif way_out not in message:
            wrong[name] = message
    return wrong


def test_rights_alone_change_nothing_of_ours_and_no_pool(sent: As) -> None:
    assert refusals(sent) == {}


def test_a_cluster_administrator_may(sent: As) -> None:
    for name, (_, request) in CHANGES.items():
        status, message = sent(request, "root", "system:masters")
        assert "ValidatingAdmissionPolicy" not in message, (name, message)
        # there is no pod to connect to
        assert status < 300 or "/pods/" in request[1], (name, message)


def test_members_of_the_groups_may_once_they_have_the_rights(
    sent: As, objects: clients.Objects
) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"}
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "everything-too"}}
    users = [{"kind": "User", "name": name} for name in ("bob", "carol")]
    objects.apply({**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users})
    until(
        lambda: sent(CHANGES["policies"][1], "bob", "platform")[0] == 200,
        what="the right is in force",
    )
    for name, (guard, request) in CHANGES.items():
        if "/pods/" in request[1]:
            continue
        status, message = sent(request, "bob", "platform")
        assert status < 300, (name, message)
        status, message = sent(request, "carol", "capacity")
        assert (status < 300) == (guard == "fairlead-pool-label"), (name, message)


def test_what_has_no_pool_in_it_and_is_not_ours_is_anybodys(sent: As) -> None:
    for request in (
        ("PATCH", "/api/v1/namespaces/mapped", {"metadata": {"labels": {"team": "a"}}}),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}),
        (
            "POST",
            "/api/v1/namespaces/plain/configmaps",
            {"metadata": {"name": "fairlead-policies"}},
        ),
        ("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "fairleading"}}),
        (
            "POST",
            f"{OURS}/events",
            {"metadata": {"name": "x"}, "involvedObject": {"namespace": NAMESPACE}},
        ),
        ("POST", f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events", EVENT),
        (
            "POST",
            f"/apis/authorization.k8s.io/v1/namespaces/{NAMESPACE}/localsubjectaccessreviews",
            QUESTION,
        ),
        ("POST", f"{LEASES}/namespaces/plain/leases", {"metadata": {"name": "x"}}),
        ("POST", f"{CLAIMS}/namespaces/plain/resourceclaims", CLAIM),
        ("POST", f"{OWN}/namespaces/plain/widgets", WIDGET),
    ):
        status, message = sent(request)
        assert status < 300, (request, message)


def test_whom_to_ask_is_told_to_the_letter_whatever_its_characters(
    objects: clients.Objects,
) -> None:
    """Characters beyond the Basic Multilingual Plane survive every step: settings, manifests,
    policies, reviews and answers.
    """
    metadata = {"name": "web", "namespace": "mapped"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    spec = {
        "containers": [{"name": "main", "image": "nginx:1.29"}],
        "nodeSelector": {"disk": "ssd"},
    }
    for send in (objects.create, lambda pod: objects.apply(pod, dry_run=True)):
        with pytest.raises(Refused) as refused:
            send({**pod, "spec": spec})
        assert f"(ask {SETTINGS.contact})" in refused.value.message
    annotated = {**pod, "metadata": {**metadata, "annotations": {"note": "\U0001f692"}}}
    applied = objects.apply({**annotated, "spec": {**spec, "nodeSelector": {}}}, dry_run=True)
    assert applied["metadata"]["annotations"]["note"] == "\U0001f692"


def test_the_sidecar_may_tell_the_status_and_nothing_else(sent: As) -> None:
    def patched(body: dict[str, Any], user: str = SIDECAR) -> int:
        return sent(("PATCH", POLICIES_URL, body), user)[0]

    status = {"openpolicyagent.org/kube-mgmt-status": "{}", "status.fairlead.dev/opa-0": "{}"}
    assert patched({"metadata": {"annotations": status}}) == 200
    assert patched({"metadata": {"annotations": dict.fromkeys(status)}}) == 200
    assert patched({"metadata": {"annotations": status}}, "alice") == 403
    for other in ({REVISION_ANNOTATION: "x"}, {REVISION_ANNOTATION: None}, {"another": "x"}):
        assert patched({"metadata": {"annotations": other}}) == 403
    assert patched({"metadata": {"labels": {"openpolicyagent.org/policy": None}}}) == 403
    assert patched({"metadata": {"finalizers": ["a.example/b"]}}) == 403
    assert patched({"data": {"main.rego": None}}) == 403
    assert patched({"binaryData": {"x": "AAAA"}}) == 403
    for name in ("policies go", "token", "account's token", "deployment", "further policies"):
        assert sent(CHANGES[name][1], SIDECAR)[0] == 403


def test_the_status_is_written_still(guarded: EmbeddedCluster, objects: clients.Objects) -> None:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "extra",
            "namespace": NAMESPACE,
            "labels": {"openpolicyagent.org/policy": "rego"},
        },
        "data": {"extra.rego": "package extra\n\nx := 1\n"},
    }
    objects.apply(config_map)

    def status() -> Any:
        config_map = objects.get("v1", "ConfigMap", "extra", NAMESPACE) or {}
        annotations = config_map["metadata"].get("annotations", {})
        written = json.loads(annotations.get(STATUS, "{}")).get("status") == "ok"
        return written and annotations.get(RETRIES) == "0"

    until(status, what="the sidecar told the status")
    objects.delete("v1", "ConfigMap", "extra", NAMESPACE)


def test_the_cluster_itself_goes_on_working(sent: As, objects: clients.Objects) -> None:
    for user in (
        "system:kube-controller-manager",
        "system:serviceaccount:kube-system:replicaset-controller",
    ):
        for name in ("pod", "policies go", "scale"):
            assert "ValidatingAdmissionPolicy" not in sent(CHANGES[name][1], user)[1]
    assert (
        "ValidatingAdmissionPolicy"
        not in sent(CHANGES["account's token"][1], "system:node:pool1-0", "system:nodes")[1]
    )
    name = "kube-root-ca.crt"
    objects.delete("v1", "ConfigMap", name, NAMESPACE)
    until(lambda: objects.get("v1", "ConfigMap", name, NAMESPACE), what="it is back")


def test_no_label_gets_a_namespace_or_a_pod_out(objects: clients.Objects) -> None:
    """Namespaces are exempt by a label that the API server itself sets to the name."""
    spoofed = {
        "kubernetes.io/metadata.name": "kube-system",
        "agentpool": "pool1",
        "control-plane": "true",
    }
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "mapped"},
        }
    )
    objects.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mapped", "labels": spoofed}}
    )
    mapped = objects.get("v1", "Namespace", "mapped") or {}
    assert mapped["metadata"]["labels"]["kubernetes.io/metadata.name"] == "mapped"
    marks = {
        "kubernetes.io/metadata.name": "kube-system",
        "fairlead.dev/exempt": "true",
        "app.kubernetes.io/name": "opa",
    }
    for metadata in ({"labels": marks}, {"annotations": marks}):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "mapped", **metadata},
        }
        pod["spec"] = {"containers": [{"name": "main", "image": "nginx:1.29"}]}
        assert objects.apply(pod, dry_run=True)["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def test_a_pool_on_an_exempt_namespace_is_told_to_have_no_effect(guarded: EmbeddedCluster) -> None:
    for namespace in EXEMPT:
        labels = {"metadata": {"labels": {"agentpool": "pool1"}}}
        status, _, headers = answered(
            guarded, ("PATCH", f"/api/v1/namespaces/{namespace}", labels), {}
        )
        assert status == 200
        assert f"agentpool has no effect on namespace {namespace}" in headers["Warning"]


@pytest.mark.parametrize("guard", GUARDS)
def test_what_refuses_is_the_guard(
    guarded: EmbeddedCluster, objects: clients.Objects, sent: As, guard: str
) -> None:
    """Without the guard each change succeeds, so nothing else refuses it."""
    kind = "ValidatingAdmissionPolicyBinding"
    binding = objects.get(ADMISSION, kind, guard)
    assert binding is not None
    mine = {
        name: request
        for name, (of, request) in CHANGES.items()
        if of == guard and "/pods/" not in request[1]
    }
    objects.delete(ADMISSION, kind, guard)
    try:
        until(lambda: not in_force(guarded, guard), what="the guard is gone")
        for name, request in mine.items():
            status, message = sent(request)
            assert status < 300, (name, message)
    finally:
        metadata = {"name": guard, "labels": binding["metadata"]["labels"]}
        objects.apply(
            {"apiVersion": ADMISSION, "kind": kind, "metadata": metadata, "spec": binding["spec"]}
        )
        until(lambda: in_force(guarded, guard), what="the guard is back")


def test_guards_stand_in_the_way_of_no_administrator(guarded: EmbeddedCluster, sent: As) -> None:
    rotate.token(guarded, progress=QUIET)
    rotate.certificate(guarded, progress=QUIET)
    push.push(guarded, PolicySet.load(SETTINGS), progress=QUIET)
    deploy.deploy(guarded, PolicySet.load(SETTINGS), progress=QUIET)
    assert refusals(sent) == {}


def test_guards_hold_while_opa_is_away_and_go_with_the_rest(
    guarded: EmbeddedCluster, sent: As
) -> None:
    guarded.stop()
    assert refusals(sent) == {}
    uninstall.uninstall(guarded, progress=QUIET)
    objects = guarded.objects()
    assert objects.get("v1", "Namespace", NAMESPACE) is None
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert not [
            o
            for o in objects.list(ADMISSION, kind, None)
            if o["metadata"]["name"].startswith("fairlead")
        ]

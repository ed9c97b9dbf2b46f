"""The rights of Fairlead's own accounts by RBAC, as the API server says it. What guards forbid
beyond that is in test_own_accounts.py and test_access_accounts.py.
"""

from __future__ import annotations

import pytest
from kubernetes import client

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.deployment.names import (
    ACCESS_ENDS,
    CERTIFICATE_LEASE,
    CONTROLLER,
    GUARDS,
    HISTORY,
    NAMESPACE,
    OPA,
    POLICIES,
    TLS_SECRET,
    TOKEN_SECRET,
    WEBHOOKS,
)
from fairlead.kube import clients

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

ADMISSION, RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
ACCESS_GROUP = "access.fairlead.dev"
WRITES = ("create", "update", "patch", "delete", "deletecollection")

# What: the group, the resource (with its subresource), the namespace ("" for all of them or for
# none), the name ("" for any), and verbs.
What = tuple[str, str, str, str, tuple[str, ...]]

MAY: dict[str, list[What]] = {
    CONTROLLER: [
        ("", "secrets", NAMESPACE, TLS_SECRET, ("get", "patch", "create")),
        ("", "secrets", NAMESPACE, TOKEN_SECRET, ("get", "patch", "create")),
        ("", "configmaps", NAMESPACE, HISTORY, ("get", "patch")),
        ("", "configmaps", NAMESPACE, POLICIES, ("get", "patch", "create")),
        ("policy.fairlead.dev", "policies", "", "", ("get", "list", "watch")),
        ("policy.fairlead.dev", "policies/status", "", "", ("patch",)),
        (ADMISSION, "validatingadmissionpolicies", "", GUARDS[0], ("get", "patch", "create")),
        ("", "events", NAMESPACE, "", ("create",)),
        ("coordination.k8s.io", "leases", NAMESPACE, CERTIFICATE_LEASE, ("get", "patch", "create")),
        ("coordination.k8s.io", "leases", NAMESPACE, CONTROLLER, ("get", "patch")),
        (ADMISSION, "mutatingwebhookconfigurations", "", WEBHOOKS, ("get", "patch", "create")),
        (ADMISSION, "validatingwebhookconfigurations", "", WEBHOOKS, ("get", "patch", "create")),
        (ACCESS_GROUP, "transientrolebindings", "", "", ("get", "list", "watch")),
        (ACCESS_GROUP, "transientrolebindings/status", "", "", ("patch",)),
        (RBAC, "rolebindings", "default", "", ("create", "patch", "delete")),
        (RBAC, "clusterroles", "", "reader", ("get", "bind")),
    ],
    ACCESS_ENDS: [(RBAC, "rolebindings", "default", "", ("list", "delete"))],
    OPA: [
        ("", "configmaps", NAMESPACE, POLICIES, ("get", "patch")),
        ("", "namespaces", "", "", ("get", "list", "watch")),
    ],
}
NOBODY: list[What] = [
    ("", "secrets", "", "", ("get", "list", "watch", *WRITES)),
    ("", "secrets", "kube-system", "", ("get", "list", "watch", *WRITES)),
    ("", "secrets", NAMESPACE, "", ("list", "watch", "create", "delete")),
    ("", "secrets", NAMESPACE, TOKEN_SECRET, ("update", "delete")),
    ("", "secrets", NAMESPACE, "sh.helm.release.v1.other", ("get", *WRITES)),
    ("", "configmaps", "default", "", ("get", "list", *WRITES)),
    ("policy.fairlead.dev", "policies", "", "", WRITES),
    ("policy.fairlead.dev", "fairleads", "", "", WRITES),
    ("", "serviceaccounts", NAMESPACE, "", WRITES),
    ("", "serviceaccounts/token", NAMESPACE, "", ("create",)),
    ("", "serviceaccounts", "kube-system", "", ("impersonate",)),
    ("", "users", "", "", ("impersonate",)),
    ("", "groups", "", "system:masters", ("impersonate",)),
    ("", "pods", "", "", WRITES),
    ("", "pods", NAMESPACE, "", WRITES),
    ("", "pods/exec", NAMESPACE, "", ("create",)),
    ("", "pods/ephemeralcontainers", "default", "", ("patch",)),
    ("", "namespaces", "", "", WRITES),
    ("", "nodes", "", "", WRITES),
    ("apps", "deployments", NAMESPACE, OPA, WRITES),
    ("apps", "daemonsets", "default", "", WRITES),
    (RBAC, "roles", NAMESPACE, "", (*WRITES, "escalate")),
    (RBAC, "clusterroles", "", "", (*WRITES, "escalate", "bind")),
    (RBAC, "clusterroles", "", "cluster-admin", ("bind", "escalate")),
    (ADMISSION, "mutatingwebhookconfigurations", "", WEBHOOKS, ("update", "delete")),
    (ADMISSION, "mutatingwebhookconfigurations", "", "others", WRITES),
    (ADMISSION, "validatingadmissionpolicies", "", "", WRITES),
    (ADMISSION, "validatingadmissionpolicybindings", "", "", WRITES),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "", WRITES),
    (ACCESS_GROUP, "transientrolebindings", "", "", (*WRITES, "approve")),
    ("certificates.k8s.io", "certificatesigningrequests/approval", "", "", ("update",)),
]
"""What none of the accounts may do."""


def allowed(cluster: EmbeddedCluster, account: str, what: What) -> list[str]:
    """The verbs of `what` that the API server grants to the account."""
    api = client.AuthorizationV1Api(clients.connect(cluster.kubeconfig))
    group, resource, namespace, name, verbs = what
    resource, _, subresource = resource.partition("/")

    def is_allowed(verb: str) -> bool:
        attributes = client.V1ResourceAttributes(
            group=group,
            resource=resource,
            subresource=subresource,
            namespace=namespace,
            name=name,
            verb=verb,
        )
        groups = ["system:serviceaccounts", "system:serviceaccounts:fairlead"]
        spec = client.V1SubjectAccessReviewSpec(
            user=f"system:serviceaccount:{NAMESPACE}:{account}",
            groups=[*groups, "system:authenticated"],
            resource_attributes=attributes,
        )
        review = api.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
        return bool(review.status and review.status.allowed)

    return [verb for verb in verbs if is_allowed(verb)]


@pytest.mark.parametrize("account", MAY)
def test_each_account_may_do_its_work_and_no_more(cluster: EmbeddedCluster, account: str) -> None:
    assert [allowed(cluster, account, what) for what in MAY[account]] == [
        list(what[-1]) for what in MAY[account]
    ]
    more = {what[:-1]: verbs for what in NOBODY if (verbs := allowed(cluster, account, what))}
    assert more == {}


def test_only_what_gives_or_ends_access_may_change_bindings(cluster: EmbeddedCluster) -> None:
    bindings: What = (RBAC, "clusterrolebindings", "", "", WRITES)
    assert {account: allowed(cluster, account, bindings) for account in MAY} == {
        CONTROLLER: ["create", "patch", "delete"],
        ACCESS_ENDS: ["delete"],
        OPA: [],
    }

"""What the guards leave to other accounts than an administrator's: nothing to OPA's and to those of
others, and to cert-manager's cainjector the CAs that verify OPA. What limits the controller, which
the guards take for an administrator, is in test_rights.py.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from applied import applied
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials, Tls
from fairlead.deployment.names import CERTIFICATE_LEASE, CONTROLLER, NAMESPACE, OPA
from fairlead.kube import clients
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it takes guards away and puts others in their place")

ADMISSION = "admissionregistration.k8s.io/v1"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/opa-tls"
HISTORY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/fairlead-history"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CERTIFICATE_LEASE}"
OWN_LEASE = LEASE.replace(CERTIFICATE_LEASE, CONTROLLER)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/opa"
MUTATING, VALIDATING = (
    f"/apis/{ADMISSION}/{kind}webhookconfigurations/fairlead" for kind in ("mutating", "validating")
)
DENIED = "ValidatingAdmissionPolicy 'fairlead-"
INJECTOR = manifests.INJECTOR
OTHERS = tuple(f"system:serviceaccount:{NAMESPACE}:{account}" for account in (OPA, "other"))

Change = Callable[[dict[str, Any]], Any]
Put = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def cluster(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster in which others have all rights by RBAC, with the guards of a deployment whose
    certificate is cert-manager's.
    """
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "everything"}}
    groups = ["", "apps", "coordination.k8s.io", "admissionregistration.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"}
    users = [{"kind": "User", "name": user} for user in (INJECTOR, *OTHERS)]
    rights = (
        {**rbac, "kind": "ClusterRole", "rules": rules},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users},
    )
    settings = Settings.model_validate({"certificates": "cert-manager"})
    objects = cluster.objects()
    with applied(objects, rights):
        for manifest in manifests.render_objects(PolicySet.load(settings), Credentials.fresh()):
            if manifest["kind"] == "ValidatingAdmissionPolicy":
                objects.apply(manifest)
        until(
            lambda: (
                edit(cluster, INJECTOR, VALIDATING, trust)[0] == 200
                and edit(cluster, OTHERS[1], VALIDATING, trust)[0] == 403
            ),
            what="the guards are in force",
        )
        yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


def send(
    cluster: EmbeddedCluster,
    account: str,
    path: str,
    body: Any,
    method: str = "PATCH",
    kind: str = "merge-patch+json",
) -> tuple[int, str]:
    """The status of a dry run in the account's name, and the message of a refusal."""
    api = clients.connect(cluster.kubeconfig)
    headers = {"Content-Type": f"application/{kind}", "Impersonate-User": account}
    answer = api.call_api(
        method, f"{api.configuration.host}{path}?dryRun=All", header_params=headers, body=body
    )
    document = json.loads(answer.read() or b"{}")
    return answer.status, str(document.get("message")) if answer.status >= 300 else ""


@pytest.fixture
def put(cluster: EmbeddedCluster) -> Put:
    """Changes an object with a function, as somebody. Returns the outcome."""

    def changed(path: str, change: Change, account: str = INJECTOR) -> tuple[int, str]:
        return edit(cluster, account, path, change)

    return changed


def edit(cluster: EmbeddedCluster, account: str, path: str, change: Change) -> tuple[int, str]:
    """Change an object with a function, in the account's name. Returns the outcome."""
    api = clients.connect(cluster.kubeconfig)
    stored = json.loads(api.call_api("GET", f"{api.configuration.host}{path}").read())
    edited = copy.deepcopy(stored)
    change(edited)
    assert edited != stored, "this changes nothing, and shows nothing"
    return send(cluster, account, path, edited, "PUT", "json")


def renew(secret: dict[str, Any]) -> None:
    secret["data"] = {
        key: base64.b64encode(value).decode() for key, value in Tls.fresh().files.items()
    }


def trust(webhooks: dict[str, Any]) -> None:
    for webhook in webhooks["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(Tls.fresh().ca).decode()


def hold(lease: dict[str, Any]) -> None:
    lease["spec"] = {"holderIdentity": "me", "leaseDurationSeconds": 15}


TRUST: dict[str, tuple[str, Change]] = {
    "mutating webhook's CAs": (MUTATING, trust),
    "validating webhook's CAs": (VALIDATING, trust),
}
OWN: dict[str, tuple[str, Change]] = {
    **TRUST,
    "certificate": (SECRET, renew),
    "certificate's lease": (LEASE, hold),
    "own lease": (OWN_LEASE, hold),
    "history": (HISTORY, lambda o: o["data"].update({"entry-00099999": "{}"})),
    "pods": (DEPLOYMENT, lambda o: o["spec"].update(replicas=7)),
}


def first(webhooks: dict[str, Any]) -> Any:
    return webhooks["webhooks"][0]


def conditional(webhooks: dict[str, Any]) -> Any:
    return next(webhook for webhook in webhooks["webhooks"] if "matchConditions" in webhook)


FOREIGN: dict[str, tuple[str, Change]] = {
    **{
        f"{path.split('/')[-2]}: {what}": (path, change)
        for path in (MUTATING, VALIDATING)
        for what, change in {
            "no webhook": lambda o: o.update(webhooks=[]),
            "one webhook less": lambda o: o["webhooks"].pop(),
            "one webhook more": lambda o: o["webhooks"].append(
                {**copy.deepcopy(first(o)), "name": "a.example.com"}
            ),
            "another order": lambda o: o["webhooks"].reverse(),
            "another name": lambda o: first(o).update(name="a.example.com"),
            "failing open": lambda o: first(o).update(failurePolicy="Ignore"),
            "all that there is": lambda o: first(o)["rules"][0].update(
                apiGroups=["*"], resources=["*/*"]
            ),
            "no namespace": lambda o: first(o).pop("namespaceSelector"),
            "few objects": lambda o: first(o).update(objectSelector={"matchLabels": {"a": "b"}}),
            "a condition": lambda o: first(o).update(
                matchConditions=[{"name": "never", "expression": "false"}]
            ),
            "no condition": lambda o: conditional(o).pop("matchConditions"),
            "another time": lambda o: first(o).update(timeoutSeconds=1),
            "another place": lambda o: first(o)["clientConfig"].update(url="https://127.0.0.1:1/"),
            "a service": lambda o: first(o).update(
                clientConfig={
                    "service": {"namespace": "x", "name": "y"},
                    "caBundle": first(o)["clientConfig"]["caBundle"],
                }
            ),
            "labels": lambda o: o["metadata"].update(labels={"a": "b"}),
            "annotations": lambda o: o["metadata"].update(annotations={"a": "b"}),
        }.items()
    },
}


def test_what_issues_the_certificate_may_change_what_verifies_it(put: Put) -> None:
    assert {name: put(*change) for name, change in TRUST.items()} == dict.fromkeys(TRUST, (200, ""))


def test_it_may_change_nothing_else(put: Put) -> None:
    every = {**FOREIGN, **{name: change for name, change in OWN.items() if name not in TRUST}}
    allowed = {
        name: answer for name, change in every.items() if DENIED not in (answer := put(*change))[1]
    }
    assert allowed == {}


def test_nobody_else_may(put: Put) -> None:
    for account in OTHERS:
        for name, change in OWN.items():
            assert DENIED in put(*change, account)[1], (account, name)


def test_they_may_remove_nothing(cluster: EmbeddedCluster) -> None:
    for account in (INJECTOR, *OTHERS):
        for path in (SECRET, MUTATING, VALIDATING, LEASE, OWN_LEASE, HISTORY, DEPLOYMENT):
            assert DENIED in send(cluster, account, path, None, "DELETE")[1], (account, path)

"""The keeper may change the certificate and the CAs that verify it, and nothing else of Fairlead's
objects."""

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
from fairlead.deployment import manifests, sidecars
from fairlead.deployment.credentials import Credentials, Tls
from fairlead.deployment.names import CERTIFICATE_LEASE, CONTROLLER, NAMESPACE, OPA
from fairlead.deployment.sidecars import Sidecar
from fairlead.kube import clients
from fairlead.operations import deploy, disable
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

pytestmark = pytest.mark.embedded("it takes guards away and puts others in their place")

ADMISSION = "admissionregistration.k8s.io/v1"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/opa-tls"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CERTIFICATE_LEASE}"
OWN_LEASE = LEASE.replace(CERTIFICATE_LEASE, CONTROLLER)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/opa"
MUTATING, VALIDATING = (
    f"/apis/{ADMISSION}/{kind}webhookconfigurations/fairlead" for kind in ("mutating", "validating")
)
DENIED = "ValidatingAdmissionPolicy 'fairlead-"
OTHERS = (OPA, "other")

Change = Callable[[dict[str, Any]], Any]
Put = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def cluster(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """A cluster in which the controller and others have all rights by RBAC."""
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "everything"}}
    groups = ["", "apps", "coordination.k8s.io", "admissionregistration.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"}
    users = [{"kind": "User", "name": user(account)} for account in (CONTROLLER, *OTHERS)]
    manifests = (
        {**rbac, "kind": "ClusterRole", "rules": rules},
        {**rbac, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": users},
    )
    with applied(cluster.objects(), manifests):
        yield cluster
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=Progress())


@pytest.fixture(params=sidecars.SIDECARS.values(), ids=lambda sidecar: sidecar.name, scope="module")
def sidecar(request: pytest.FixtureRequest, cluster: EmbeddedCluster) -> Sidecar:
    """The sidecar whose deployment brings the guards that are tested."""
    chosen: Sidecar = request.param
    settings = Settings()
    rendered = manifests.render_objects(
        PolicySet.load(settings), Credentials.fresh(), sidecar=chosen
    )
    objects = cluster.objects()
    for manifest in rendered:
        if manifest["kind"] == "ValidatingAdmissionPolicy":
            objects.apply(manifest)
    change = {"metadata": {"labels": {"a": "b"}}}
    rolls = 403 if chosen.rereads else 200
    until(
        lambda: (
            edit(cluster, CONTROLLER, DEPLOYMENT, roll)[0] == rolls
            and send(cluster, CONTROLLER, MUTATING, change)[0] == 403
            and edit(cluster, CONTROLLER, VALIDATING, trust)[0] == 200
        ),
        what="the guards are in force",
    )
    return chosen


def user(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


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
    headers = {"Content-Type": f"application/{kind}", "Impersonate-User": user(account)}
    answer = api.call_api(
        method, f"{api.configuration.host}{path}?dryRun=All", header_params=headers, body=body
    )
    document = json.loads(answer.read() or b"{}")
    return answer.status, str(document.get("message")) if answer.status >= 300 else ""


@pytest.fixture
def put(cluster: EmbeddedCluster, sidecar: Sidecar) -> Put:
    """Changes an object with a function, as the controller's account or another one. Returns the
    outcome.
    """

    def changed(path: str, change: Change, account: str = CONTROLLER) -> tuple[int, str]:
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


def roll(deployment: dict[str, Any]) -> None:
    metadata = deployment["spec"]["template"]["metadata"]
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        "fairlead.dev/authorities": "abc",
    }


OWN: dict[str, tuple[str, Change]] = {
    "certificate": (SECRET, renew),
    "mutating webhook's CAs": (MUTATING, trust),
    "validating webhook's CAs": (VALIDATING, trust),
    "certificate's lease": (LEASE, hold),
    "own lease": (OWN_LEASE, hold),
}


def first(webhooks: dict[str, Any]) -> Any:
    return webhooks["webhooks"][0]


def conditional(webhooks: dict[str, Any]) -> Any:
    return next(webhook for webhook in webhooks["webhooks"] if "matchConditions" in webhook)


FOREIGN: dict[str, tuple[str, Change]] = {
    "another key": (SECRET, lambda o: o["data"].update(more="AAAA")),
    "a key gone": (SECRET, lambda o: o["data"].pop("ca.crt")),
    "who renews": (
        SECRET,
        lambda o: o["metadata"].update(annotations={"fairlead.dev/renewed-by": "me"}),
    ),
    "a label": (SECRET, lambda o: o["metadata"].update(labels={"a": "b"})),
    "a finalizer": (SECRET, lambda o: o["metadata"].update(finalizers=["a.example/b"])),
    "an owner": (
        SECRET,
        lambda o: o["metadata"].update(
            ownerReferences=[{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "y"}]
        ),
    ),
    "for ever": (SECRET, lambda o: o.update(immutable=True)),
    "another secret": (
        SECRET.replace("opa-tls", "opa-token"),
        lambda o: o["data"].update(token="AAAA"),
    ),
    "the lease's labels": (LEASE, lambda o: o["metadata"].update(labels={"a": "b"})),
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
    "more pods": (DEPLOYMENT, lambda o: o["spec"].update(replicas=7)),
    "another image": (
        DEPLOYMENT,
        lambda o: o["spec"]["template"]["spec"]["containers"][0].update(image="other"),
    ),
    "another template label": (
        DEPLOYMENT,
        lambda o: o["spec"]["template"]["metadata"]["labels"].update(a="b"),
    ),
    "another template annotation": (
        DEPLOYMENT,
        lambda o: o["spec"]["template"]["metadata"].update(annotations={"a": "b"}),
    ),
    "the deployment's annotation": (
        DEPLOYMENT,
        lambda o: o["metadata"]["annotations"].update(a="b"),
    ),
    "a pause": (DEPLOYMENT, lambda o: o["spec"].update(paused=True)),
}


def test_what_renews_may_change_the_certificate_and_what_verifies_it(put: Put) -> None:
    assert {name: put(*change) for name, change in OWN.items()} == dict.fromkeys(OWN, (200, ""))


def test_only_beside_a_sidecar_that_reads_once_may_it_replace_pods(
    put: Put, sidecar: Sidecar
) -> None:
    assert put(DEPLOYMENT, roll)[0] == (403 if sidecar.rereads else 200)


def test_it_may_change_nothing_else(put: Put) -> None:
    allowed = {
        name: answer
        for name, change in FOREIGN.items()
        if DENIED not in (answer := put(*change))[1]
    }
    assert allowed == {}


def test_nobody_else_may(put: Put) -> None:
    for account in OTHERS:
        for name, change in OWN.items():
            assert DENIED in put(*change, account)[1], (account, name)


@pytest.mark.usefixtures("sidecar")
def test_it_may_remove_nothing(cluster: EmbeddedCluster) -> None:
    for path in (SECRET, MUTATING, VALIDATING, LEASE, OWN_LEASE, DEPLOYMENT):
        assert DENIED in send(cluster, CONTROLLER, path, None, "DELETE")[1], path


def enabled(webhooks: dict[str, Any]) -> None:
    for webhook in webhooks["webhooks"]:
        webhook["objectSelector"] = {}


def unrecorded(webhooks: dict[str, Any]) -> None:
    del webhooks["metadata"]["annotations"]["disabled.fairlead.dev/node-pool"]


def over(webhooks: dict[str, Any]) -> None:
    enabled(webhooks)
    unrecorded(webhooks)


def narrowed(webhooks: dict[str, Any]) -> None:
    unrecorded(webhooks)
    first(webhooks)["objectSelector"] = {"matchLabels": {"a": "b"}}


def test_it_renews_while_an_intent_is_disabled_and_may_not_enable_it(
    cluster: EmbeddedCluster, put: Put
) -> None:
    disable.disable(cluster, None, "a test")
    try:
        for path in (MUTATING, VALIDATING):
            assert put(path, trust) == (200, "")
            for change in (enabled, unrecorded, over):
                assert DENIED in put(path, change)[1]
    finally:
        disable.enable(cluster, None)


def test_it_may_enable_what_has_an_end_and_nobody_else_may(
    cluster: EmbeddedCluster, put: Put
) -> None:
    live = cluster.objects()
    record = json.dumps({"by": "alice", "reason": "why", "until": "2040-01-01T00:00:00Z"})
    disable.disable(cluster, None, "a test")
    try:
        for path, kind in ((MUTATING, "Mutating"), (VALIDATING, "Validating")):
            webhooks = live.get(ADMISSION, f"{kind}WebhookConfiguration", "fairlead")
            assert webhooks
            annotations = {"disabled.fairlead.dev/node-pool": record}
            live.merge(webhooks, {"metadata": {"annotations": annotations}})
            assert put(path, over) == (200, "")
            assert put(path, unrecorded) == (200, ""), "what is half on already"
            assert DENIED in put(path, enabled)[1]
            assert DENIED in put(path, narrowed)[1]
            assert all(DENIED in put(path, over, other)[1] for other in OTHERS)
    finally:
        disable.enable(cluster, None)


def test_it_may_add_to_the_history_that_an_intent_was_enabled_and_nothing_else(put: Put) -> None:
    log = f"/api/v1/namespaces/{NAMESPACE}/configmaps/fairlead-history"
    entry = json.dumps({"action": "enable"})
    assert put(log, lambda o: o["data"].update({"entry-00099999": entry})) == (200, "")
    for change in (
        lambda o: o["data"].update({"entry-00099999": json.dumps({"action": "disable"})}),
        lambda o: o["data"].update({max(o["data"]): entry}),
        lambda o: o["data"].pop(next(iter(o["data"]))),
        lambda o: o["data"].update({"settings-a": entry}),
        lambda o: o.update(immutable=True),
        lambda o: o["metadata"].update(labels={"a": "b"}),
    ):
        assert DENIED in put(log, change)[1]
    assert DENIED in put(log, lambda o: o["data"].update({"entry-00099999": entry}), "other")[1]

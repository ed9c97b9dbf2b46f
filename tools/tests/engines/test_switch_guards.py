"""What ends `fairlead disable --for` may switch on what has an end, and add to the history that it
did. The guards decide here by API servers' own code, without an API server."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from fairlead.common.progress import Progress
from fairlead.deployment import disabled_intents, manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.disabled_objects import Record
from fairlead.engines.base import Decision
from fairlead.engines.cel import offline
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

ENDS = "system:serviceaccount:fairlead:fairlead-controller"
TENANT = "system:serviceaccount:shop:deployer"
GUARDS = ("fairlead-objects", "fairlead-cluster-objects")
SINCE, UNTIL = "2026-11-22T10:00:00Z", "2026-11-22T10:30:00Z"
ENABLED = '{"action": "enable"}'

Object = dict[str, Any]
Change = Callable[[Object], Any]


@pytest.fixture(scope="module")
def rendered() -> list[Object]:
    return manifests.render_objects(PolicySet.load(Settings()), Credentials.fresh())


@pytest.fixture(scope="module")
def guards(rendered: list[Object]) -> list[Object]:
    """The guards with their bindings, as they are for whoever is no administrator: only an API
    server knows who is one.
    """
    chosen = [
        copy.deepcopy(manifest)
        for manifest in rendered
        if manifest["kind"].startswith("ValidatingAdmissionPolicy")
        and manifest["metadata"]["name"] in GUARDS
    ]
    for manifest in chosen:
        conditions = manifest["spec"].get("matchConditions", [])
        manifest["spec"]["matchConditions"] = [
            each for each in conditions if "authorizer" not in each["expression"]
        ]
        if manifest["kind"].endswith("Binding"):
            del manifest["spec"]["matchConditions"]
    return chosen


@pytest.fixture(scope="module")
def webhooks(rendered: list[Object]) -> Object:
    """The mutating webhooks, as API servers complete them."""
    (found,) = [each for each in rendered if each["kind"] == "MutatingWebhookConfiguration"]
    completed = copy.deepcopy(found)
    for webhook in completed["webhooks"]:
        webhook.setdefault("objectSelector", {})
    return completed


def update(old: Object, new: Object, user: str) -> Object:
    """The review of an update by this user."""
    group, _, version = new["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": new["kind"]}
    resource = {"group": group, "version": version, "resource": f"{new['kind'].lower()}s"}
    request = {
        "uid": "1",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": new["metadata"]["name"],
        "operation": "UPDATE",
        "userInfo": {"username": user, "groups": ["system:serviceaccounts"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": None,
    }
    if namespace := new["metadata"].get("namespace"):
        request["namespace"] = namespace
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def allowed(guards: list[Object], old: Object, change: Change, user: str = ENDS) -> bool:
    new = copy.deepcopy(old)
    change(new)
    labels = {"fairlead": {"kubernetes.io/metadata.name": "fairlead"}}
    (decision,) = offline.decide(guards, [update(old, new, user)], labels, progress=Progress())
    assert isinstance(decision, Decision), decision
    assert decision.allowed or "may not change" in decision.message
    return decision.allowed


def disabled(webhooks: Object, until: str | None) -> Object:
    record = Record("node-pool", "alice", SINCE, "why", until)
    patch = disabled_intents.off(webhooks, {"node-pool": record})
    patched: Object = jsonpatch.apply_patch(webhooks, patch)
    return patched


def switched_on(webhooks: Object) -> None:
    for webhook in webhooks["webhooks"]:
        webhook["objectSelector"] = {}


def unrecorded(webhooks: Object) -> None:
    del webhooks["metadata"]["annotations"]["disabled.fairlead.dev/node-pool"]


def ended(webhooks: Object) -> None:
    switched_on(webhooks)
    unrecorded(webhooks)


def test_what_has_an_end_may_be_switched_on(guards: list[Object], webhooks: Object) -> None:
    patch = disabled_intents.on(disabled(webhooks, UNTIL), {"node-pool"})
    after = jsonpatch.apply_patch(disabled(webhooks, UNTIL), patch)
    assert allowed(guards, disabled(webhooks, UNTIL), lambda o: o.update(after))
    assert not allowed(guards, disabled(webhooks, UNTIL), ended, TENANT)
    assert not allowed(guards, disabled(webhooks, None), ended), "only people end that"


@pytest.mark.parametrize(
    "changes",
    [
        [switched_on],
        [ended, lambda o: o["webhooks"][0].update(failurePolicy="Ignore")],
        [ended, lambda o: o["webhooks"].pop()],
        [ended, lambda o: o["metadata"].update(labels={})],
        [ended, lambda o: o["metadata"].update(annotations={"a": "b"})],
        [unrecorded, lambda o: o["webhooks"][0].update(objectSelector={"matchLabels": {"a": "b"}})],
    ],
    ids=["the record stays", "failing open", "one less", "labels", "annotations", "narrower"],
)
def test_nothing_else_of_the_webhooks_may_change(
    guards: list[Object], webhooks: Object, changes: list[Change]
) -> None:
    def change(live: Object) -> None:
        for each in changes:
            each(live)

    assert not allowed(guards, disabled(webhooks, UNTIL), change)


def test_it_may_disable_nothing(guards: list[Object], webhooks: Object) -> None:
    assert not allowed(guards, webhooks, lambda o: o.update(disabled(webhooks, UNTIL)))


LOG: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "fairlead-history", "namespace": "fairlead", "labels": {"a": "b"}},
    "data": {"entry-00000001": "{}"},
}


def test_an_end_is_added_to_the_history(guards: list[Object]) -> None:
    def add(log: Object) -> None:
        log["data"]["entry-00000002"] = ENABLED

    assert allowed(guards, LOG, add)
    assert not allowed(guards, LOG, add, TENANT)
    other = {**LOG, "metadata": {**LOG["metadata"], "name": "fairlead-policies"}}
    assert not allowed(guards, other, add)


@pytest.mark.parametrize(
    "change",
    [
        lambda o: o["data"].update({"entry-00000002": '{"action": "disable"}'}),
        lambda o: o["data"].update({"entry-00000001": ENABLED}),
        lambda o: o["data"].pop("entry-00000001"),
        lambda o: o["data"].update({"settings-a": ENABLED}),
        lambda o: o["metadata"].update(labels={}),
        lambda o: o.update(immutable=True),
    ],
    ids=["another action", "an entry changes", "one less", "another key", "labels", "for ever"],
)
def test_nothing_else_of_the_history_may_change(guards: list[Object], change: Change) -> None:
    assert not allowed(guards, LOG, change)

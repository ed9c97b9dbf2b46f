"""What the accounts of transient access may do, by the guards that bind them and everybody else;
and whose rights count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from access_world import BINDINGS, GROUP, RBAC, RIGHTS, SPEC, World, at, bound, path
from applied import applied
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.deployment.names import (
    ACCESS_ENDS,
    CONTROLLER,
    NAMESPACE,
    TRANSIENT_LABEL,
    UNTIL_ANNOTATION,
)
from fairlead.kube.responses import Response

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

ACCOUNT, ENDS = (
    f"system:serviceaccount:{NAMESPACE}:{account}" for account in (CONTROLLER, ACCESS_ENDS)
)
WIDE = f"/apis/{RBAC}/v1/clusterrolebindings"
ADMISSION = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    with applied(cluster.objects(), RIGHTS):
        world = World(cluster)
        labelled = bound("RoleBinding", "probe", "reader", "somebody")
        labelled["metadata"]["labels"] = {TRANSIENT_LABEL: "true"}
        for user in ("boss", ACCOUNT):  # API servers notice new guards some seconds later
            until(
                lambda user=user: (
                    world.users(user, "POST", f"{BINDINGS}?dryRun=All", labelled).status == 403
                ),  # type: ignore[misc]
                "the guards are in force",
            )
        yield world


@pytest.fixture(scope="module")
def owned(world: World) -> Iterator[dict[str, Any]]:
    """The metadata that the binding of a transient one has."""
    world.create("owned", -1, 3600)
    until(lambda: world.can("owned"), "access begins")
    metadata = (world.binding("owned") or {})["metadata"]
    yield {key: metadata[key] for key in ("labels", "annotations", "ownerReferences")}
    assert world.users("boss", "DELETE", path("owned")).ok


@pytest.fixture(scope="module")
def strangers(world: World) -> Iterator[str]:
    """The path of a binding that has nothing to do with transient access."""
    manifest = bound("RoleBinding", "strangers", "reader", "somebody")
    assert world.users("boss", "POST", BINDINGS, manifest).ok
    yield f"{BINDINGS}/strangers"
    assert world.users("boss", "DELETE", f"{BINDINGS}/strangers").ok


def refused(answer: Response, because: str) -> None:
    assert answer.status == 403, answer
    assert because in answer.message


@pytest.mark.parametrize("account", [ACCOUNT, ENDS])
def test_own_accounts_delete_no_binding_of_others(
    world: World, strangers: str, account: str
) -> None:
    for target in (f"{WIDE}/cluster-admin", f"{WIDE}/system:node", strangers):
        answer = world.users(account, "DELETE", f"{target}?dryRun=All")
        refused(answer, "it does not come of a transient role binding")


def test_the_controller_makes_no_binding_without_an_owner_and_an_end(
    world: World, owned: dict[str, Any]
) -> None:
    labels = {TRANSIENT_LABEL: "true"}
    for changes, because in (
        ({"ownerReferences": [], "labels": labels}, "does not come of a transient role binding"),
        ({"annotations": {}}, f"it lacks the label {TRANSIENT_LABEL} or the annotation"),
        ({"labels": {}}, f"it lacks the label {TRANSIENT_LABEL} or the annotation"),
        ({key: {} for key in owned}, "it does not come of a transient role binding"),
    ):
        manifest = bound("RoleBinding", "evil", "reader", "eve")
        changed = {key: value or None for key, value in {**owned, **changes}.items()}
        manifest["metadata"] = {"name": "evil", **changed}
        refused(world.users(ACCOUNT, "POST", BINDINGS, manifest), because)
    good = bound("RoleBinding", "good", "reader", "eve")
    good["metadata"] = {"name": "good", **owned}
    assert world.users(ACCOUNT, "POST", f"{BINDINGS}?dryRun=All", good).ok


def test_the_controller_changes_none_so_that_it_has_no_end(
    world: World, owned: dict[str, Any], strangers: str
) -> None:
    users, own = world.users, f"{BINDINGS}/owned"
    taken_over = users(ACCOUNT, "PATCH", strangers, {"metadata": owned})
    refused(taken_over, "may not update rolebindings strangers: it ")  # two guards do
    disowned = {"ownerReferences": None, "labels": {"controller-uid": None}}
    without_owner = users(ACCOUNT, "PATCH", own, {"metadata": disowned})
    refused(without_owner, "it does not come of a transient role binding")
    for key in (("annotations", UNTIL_ANNOTATION), ("labels", TRANSIENT_LABEL)):
        change = {"metadata": {key[0]: {key[1]: None}}}
        refused(users(ACCOUNT, "PATCH", own, change), "it would have no end")
    assert users(ACCOUNT, "PATCH", own, {"metadata": {"labels": {"a": "b"}}}).ok


def test_the_second_process_ends_and_does_nothing_else(world: World, owned: dict[str, Any]) -> None:
    good = bound("RoleBinding", "good", "reader", "eve")
    good["metadata"] = {"name": "good", **owned}
    for answer in (
        world.users(ENDS, "POST", BINDINGS, good),
        world.users(ENDS, "PATCH", f"{BINDINGS}/owned", {"metadata": {"labels": {"a": "c"}}}),
        world.users(ENDS, "GET", path()),
        world.users(ENDS, "GET", "/api/v1/secrets"),
    ):
        assert answer.status == 403
    assert world.users(ENDS, "DELETE", f"{BINDINGS}/owned?dryRun=All").ok


def test_nobody_gives_the_label_by_which_bindings_are_listed(world: World) -> None:
    label = {"labels": {TRANSIENT_LABEL: "true"}}
    bait = bound("RoleBinding", "bait", "reader", "somebody")
    assert world.users("boss", "POST", BINDINGS, bait).ok
    second = {**bait, "metadata": {"name": "second", **label}}
    for answer in (
        world.users("boss", "PATCH", f"{BINDINGS}/bait", {"metadata": label}),
        world.users("boss", "POST", BINDINGS, second),
    ):
        refused(answer, f"by its owner or its label {TRANSIENT_LABEL}")
    assert world.users("boss", "DELETE", f"{BINDINGS}/bait").ok


def test_bindings_that_an_earlier_version_made_are_found(world: World) -> None:
    cluster, objects = world.cluster, world.cluster.objects()
    world.create("before", -1, 3600)
    until(lambda: world.can("before"), "access begins")
    argv, _ = cluster._remembered(f"{CONTROLLER}-started")
    cluster.stop_server(CONTROLLER)
    guard = objects.get(ADMISSION, "ValidatingAdmissionPolicyBinding", "fairlead-access-bindings")
    assert guard is not None
    objects.delete(ADMISSION, guard["kind"], guard["metadata"]["name"])
    unlabelled = {"metadata": {"labels": {TRANSIENT_LABEL: None}}}
    before = f"{BINDINGS}/before"
    until(lambda: world.users("boss", "PATCH", before, unlabelled).ok, "the guard is gone")
    metadata = {key: guard["metadata"][key] for key in ("name", "labels")}
    objects.apply({**guard, "metadata": metadata})
    (opa,) = cluster.opas()
    endpoint = next(part for part in argv if part.startswith("--health-endpoint="))
    ready = f"https://{endpoint.partition('=')[2]}/health"
    cluster.start_server(CONTROLLER, argv, ready=ready, ca=opa.ca)

    def labels() -> dict[str, str]:
        return dict((world.binding("before") or {})["metadata"]["labels"])

    until(lambda: TRANSIENT_LABEL in labels(), "it has the label")
    assert "Repaired" not in world.events("before")
    assert world.users("boss", "DELETE", path("before")).ok
    until(lambda: not world.can("before"), "it has ended")


def test_a_right_that_comes_of_a_group_counts_if_the_group_is_named(world: World) -> None:
    ops = {"apiGroup": RBAC, "kind": "Group", "name": "ops"}
    binding = {**bound("ClusterRoleBinding", "ops-bind", "binder"), "subjects": [ops]}

    def create(name: str, **spec: Any) -> Response:
        subjects = [{"kind": "User", "name": name}]
        times = {"validFrom": at(-1), "validUntil": at(3600)}
        role = {"kind": "ClusterRole", "name": "reader"}
        spec = {**times, "roleRef": role, "subjects": subjects, "requestedBy": "temp", **spec}
        kinds = {"apiVersion": f"{GROUP}/v1", "kind": "TransientRoleBinding"}
        body = {**kinds, "metadata": {"name": name}, "spec": spec}
        return world.users("temp", "POST", path(), body, groups=("ops",))

    with applied(world.cluster.objects(), [binding]):
        until(lambda: create("unnamed", requestedByGroups=[]).ok, "temp may create them")
        until(lambda: world.reason("unnamed") == "RequesterMayNotBind", "no group is named")
        message = world.conditions("unnamed")["failed"]["message"]
        assert "temp (requestedBy) may not bind the ClusterRole reader by that name" in message
        named = create("named", requestedByGroups=["ops"])
        assert (named.ok, named.warnings) == (True, ())
        until(lambda: world.can("named"), "access begins")
        assert create("others", requestedByGroups=["system:authenticated"]).ok
        until(lambda: world.reason("others") == "RequesterMayNotBind", "another group is named")
        message = world.conditions("others")["failed"]["message"]
        assert "neither temp (requestedBy) nor the groups system:authenticated" in message
        filled = create("filled")
        assert filled.body["spec"]["requestedByGroups"] == ["ops", "system:authenticated"]
        until(lambda: world.can("filled"), "access begins")
        for name in ("unnamed", "named", "others", "filled"):
            assert world.users("boss", "DELETE", path(name)).ok


def test_an_api_server_that_cannot_fill_it_in_says_what_to_write(world: World) -> None:
    objects, kind = world.cluster.objects(), "MutatingAdmissionPolicyBinding"
    filling = objects.get(ADMISSION, kind, "fairlead-access-requester")
    assert filling is not None
    objects.delete(ADMISSION, kind, "fairlead-access-requester")

    def create(**spec: Any) -> Response:
        spec = {**SPEC, **spec}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "TransientRoleBinding", "spec": spec}
        dry = {**body, "metadata": {"name": "filled"}}
        return world.users("boss", "POST", f"{path()}?dryRun=All", dry, groups=("ops",))

    until(lambda: not create().ok, "nothing is filled in")
    assert "write who asks for this into spec.requestedBy: boss, and into spec.requestedBy" in (
        create().message
    )
    assert create().message.endswith("may bind the role: ops, system:authenticated")
    told = [text for text in create(requestedBy="boss").warnings if "member of a group" in text]
    assert len(told) == 1
    assert "create this again with that group in spec.requestedByGroups" in told[0]
    assert told[0].endswith("The groups are ops, system:authenticated")
    metadata = {key: filling["metadata"][key] for key in ("name", "labels")}
    objects.apply({**filling, "metadata": metadata})
    until(lambda: create().ok, "it is filled in again")


def test_a_window_that_is_over_is_told_at_once(world: World) -> None:
    answer = world.users.create("boss", "over", requestedBy="boss")
    assert answer.ok
    assert any("its window was over at 2026-11-21T11:00:00Z" in text for text in answer.warnings)
    until(lambda: world.reason("over") == "Expired", "the status says the same")
    assert world.users("boss", "DELETE", path("over")).ok

"""Transient role bindings on a real API server: their kinds, and who may do what with them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import urllib3
import yaml
from access_world import (
    BINDINGS,
    CLUSTER,
    GROUP,
    NAMESPACE,
    RBAC,
    SPEC,
    Users,
    bound,
    path,
    role,
)
from applied import applied, namespace_manifest
from examples import collected
from foreign import Foreign
from time_texts import EDGES, GOOD, ODDITIES, broken, legal
from waits import until

from fairlead.access import instants
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.kube import clients
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

PROFILES = ["foreign"]
pytestmark = pytest.mark.embedded("it has no policies but these")

CONTROLLER = "system:serviceaccount:metacontroller:metacontroller"
ROBOT = "system:serviceaccount:shop:robot"


def rendered(access: object) -> list[dict[str, Any]]:
    """The objects of these settings that concern transient access."""
    settings = Settings.model_validate({"access": access})
    templates = ("15-access.yaml.j2", "86-access.yaml.j2")
    files = manifests.render_files(
        PolicySet.load(settings), Credentials("", b"", b"", b""), templates=templates
    )
    return [manifest for objects in files.values() for manifest in objects]


RESOURCES = ["transientrolebindings", CLUSTER, "transientrolebindings/status"]
WORLD = [
    role("reader", {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
    # All of it but `approve`, and more than any tenant has about bindings.
    role(
        "requester",
        {
            "apiGroups": [GROUP],
            "resources": RESOURCES,
            "verbs": ["create", "get", "list", "update", "patch", "delete", "deletecollection"],
        },
        {
            "apiGroups": [RBAC],
            "resources": ["rolebindings"],
            "verbs": ["create", "get", "update", "patch", "delete"],
        },
    ),
    role(
        "binds-reader",
        {
            "apiGroups": [RBAC],
            "resources": ["clusterroles"],
            "resourceNames": ["reader"],
            "verbs": ["bind"],
        },
    ),
    bound(
        "ClusterRoleBinding", "requesters", "requester", "dev", "boss", "lead", CONTROLLER, ROBOT
    ),
    bound("RoleBinding", "binders", "binds-reader", "boss", CONTROLLER, "lead", ROBOT),
]


@pytest.fixture(scope="module")
def users(undeployed: Foreign) -> Iterator[Users]:
    """Users of a cluster with the kinds and guards in force, without approvers."""
    manifests = [
        namespace_manifest(NAMESPACE),
        *WORLD,
        *rendered(access={"controller": CONTROLLER}),
    ]
    with applied(undeployed.objects(), manifests):
        asking = Users(undeployed.kubeconfig)
        until(
            lambda: asking.create("dev", "probe").status == 403,
            what="the kinds and their guard are in force",
        )
        # The policies come into force one after the other.
        until(
            lambda: asking("boss", "POST", BINDINGS, child("probe")).status == 403,
            what="the guard of bindings is in force",
        )
        yield asking


def child(name: str, *, owner: str | None = GROUP, uid: str = "u-1") -> dict[str, Any]:
    """A RoleBinding as the controller makes it."""
    manifest = bound("RoleBinding", name, "reader", "alice")
    if owner:
        manifest["metadata"]["ownerReferences"] = [
            {
                "apiVersion": f"{owner}/v1",
                "kind": "TransientRoleBinding",
                "name": name,
                "uid": uid,
                "controller": True,
            }
        ]
    return manifest


def test_a_binding_is_shown_with_its_role_its_window_and_whether_it_is_effective(
    users: Users,
) -> None:
    subjects = [
        {"kind": "User", "name": "alice"},
        {"kind": "ServiceAccount", "name": "robot"},
        {"kind": "Group", "name": "ops"},
    ]
    created = users.create("boss", "shown", subjects=subjects, reason="a repair")
    assert created.ok, created.message
    condition = {
        "type": "effective",
        "status": "True",
        "reason": "Granted",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    status = {"status": {"conditions": [condition]}}
    assert users(CONTROLLER, "PATCH", path("shown", "status"), status).ok
    kubectl = toolchain.ensure(["kubectl"], Progress())["kubectl"]
    place = [f"--kubeconfig={users.kubeconfig}", f"--namespace={NAMESPACE}"]
    printed = subprocess.check_output(
        [kubectl, *place, "get", "trb", "shown", "--output=wide"], text=True
    )
    header, line = printed.splitlines()
    columns = "NAME ROLE FIRST SUBJECT FROM UNTIL EFFECTIVE WHY KIND OF ROLE REASON"
    assert " ".join(header.split()) == columns
    assert line.split() == [
        *("shown", "reader", "alice", "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"),
        *("True", "Granted", "ClusterRole", "a", "repair"),
    ]


def test_the_example_of_the_page_is_accepted(users: Users) -> None:
    page = (paths.root() / "docs" / "access.md").read_text()
    (example,) = re.findall(r"```yaml\n(apiVersion: access.*?)```", page, re.DOTALL)
    manifest = yaml.safe_load(example)
    assert manifest["metadata"]["namespace"] == NAMESPACE
    # Filled in by what test_access_accounts.py tests, for users by name and by group.
    manifest["spec"].setdefault("requestedBy", "boss")
    created = users("boss", "POST", path(), manifest)
    assert created.ok, created.message


LONG = ["\U0001f600" * 60 + str(number) for number in range(100)]
"""Names of 24,000 bytes in 6,000 characters."""
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "the end first": ({"validUntil": "2026-11-21T09:00:00Z"}, "validUntil has to be after"),
    "an empty window": ({"validUntil": "2026-11-21T12:00:00+02:00"}, "validUntil has to be after"),
    "too long": ({"validUntil": "2026-12-21T10:00:01Z"}, "access is given for at most 30d"),
    "all times": (
        {"validFrom": "0001-01-01T00:00:00Z", "validUntil": "9999-12-31T23:59:59Z"},
        "access is given for at most 30d",
    ),
    "no zone": ({"validUntil": "2026-11-21T11:00:00"}, "spec.validUntil in body should match"),
    "no day": ({"validFrom": "2026-02-30T10:00:00Z"}, "must be of type date-time"),
    "a leap second": ({"validFrom": "2016-12-31T23:59:60Z"}, "must be of type date-time"),
    "a kind of role": ({"roleRef": {"kind": "Group", "name": "a"}}, "spec.roleRef.kind"),
    "a path": ({"roleRef": {"kind": "Role", "name": "a/b"}}, "spec.roleRef.name in body"),
    "nobody": ({"subjects": []}, "should have at least 1 items"),
    "many": ({"subjects": SPEC["subjects"] * 101}, "must have at most 100 items"),  # type: ignore[operator]
    "a robot": ({"subjects": [{"kind": "Robot", "name": "r"}]}, "spec.subjects[0].kind"),
    "an account": (
        {"subjects": [{"kind": "ServiceAccount", "name": "A_b"}]},
        "this is not a name of a ServiceAccount",
    ),
    "a namespace": (
        {"subjects": [{"kind": "User", "name": "a", "namespace": "b"}]},
        "a User or Group has no namespace",
    ),
    "an API group": (
        {"subjects": [{"kind": "User", "name": "a", "apiGroup": "b"}]},
        "the apiGroup of a User or Group is rbac.authorization.k8s.io",
    ),
    "nobody asks": ({"needsApproval": True}, "access that needs approval says who asks for it"),
    "an offset of a day": ({"validUntil": "2026-11-22T12:00:00+24:00"}, "in body should match"),
    "an offset of 60 minutes": ({"validUntil": "2026-11-22T12:00:00+01:60"}, "should match"),
    "the year 0": ({"validFrom": "0000-11-21T10:00:00Z"}, "spec.validFrom in body should match"),
    "a line": ({"subjects": [{"kind": "User", "name": "a\nb"}]}, "spec.subjects[0].name in body"),
    "long names": (
        {"subjects": [{"kind": "User", "name": name} for name in LONG]},
        "the names have more than 16384 bytes in all: name a group",
    ),
    "long groups": (
        {"requestedByGroups": LONG},
        "the groups have more than 16384 bytes in all: name those that may bind the role",
    ),
}


def test_what_is_wrong_is_refused_with_the_reason(users: Users) -> None:
    for name, (spec, message) in WRONG.items():
        answer = users.create("boss", "wrong", **spec)
        assert (answer.status, message in answer.message) == (422, True), (name, answer.message)


def test_a_time_that_is_stored_is_one_that_the_controller_and_opa_read(users: Users) -> None:
    """What they read, and that they read the same: tools/tests/access/test_times_alike.py."""
    texts = [*EDGES, *GOOD, *ODDITIES, *collected(legal, 150), *collected(broken, 100)]
    stored = 0
    for text in dict.fromkeys(texts):
        try:
            instant = instants.nanoseconds(text)
            other = instants.spelled(instant - instants.SECOND)
        except (ValueError, OverflowError):
            instant, other = None, "2026-11-21T10:00:00Z"
        spec = {**SPEC, "validFrom": other, "validUntil": text}
        body = {"apiVersion": f"{GROUP}/v1", "kind": "TransientRoleBinding", "spec": spec}
        manifest = {**body, "metadata": {"name": "time"}}
        answer = users("boss", "POST", f"{path()}?dryRun=All", manifest)
        if instant is None:
            assert answer.status == 422, (text, answer.message)
            continue
        stored += answer.ok
        swapped = {**manifest, "spec": {**spec, "validFrom": text, "validUntil": other}}
        backwards = users("boss", "POST", f"{path()}?dryRun=All", swapped)
        assert backwards.status == 422, text
        if answer.ok:
            assert "validUntil has to be after validFrom" in backwards.message, text
    assert stored > 50  # of about 100: texts are drawn at random, and some come twice


def test_megabytes_of_subjects_are_refused(users: Users) -> None:
    subject = {"kind": "User", "name": "x" * 500}
    answer = users.create("boss", "huge", subjects=[subject] * 4_000)
    assert (answer.status, "must have at most 100 items" in answer.message) == (422, True)
    # API servers read 3 MB of a request, and may close the connection before all 10 are sent.
    with suppress(urllib3.exceptions.HTTPError):
        assert users.create("boss", "huge", subjects=[subject] * 20_000).status == 413
    assert users("boss", "GET", path("huge")).status == 404


def test_a_cluster_role_binding_takes_only_what_holds_in_the_whole_cluster(users: Users) -> None:
    account = {"kind": "ServiceAccount", "name": "robot"}
    unplaced = users.create("boss", "wide", kind="Cluster", subjects=[account])
    assert "a ServiceAccount needs its namespace here" in unplaced.message
    local = users.create("boss", "wide", kind="Cluster", roleRef={"kind": "Role", "name": "a"})
    assert "spec.roleRef.kind" in local.message


def test_the_longest_window_and_the_last_year_are_possible(users: Users) -> None:
    windows = {
        "longest": ("2026-11-21T10:00:00Z", "2026-12-21T10:00:00Z"),
        "last": ("9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999999999Z"),
        "nanosecond": ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00.000000001Z"),
    }
    for name, (begin, end) in windows.items():
        answer = users.create("boss", name, validFrom=begin, validUntil=end)
        assert answer.ok, (name, answer.message)


def test_a_spec_never_changes(users: Users) -> None:
    assert users.create("boss", "fixed", reason="a repair").ok
    for change in (
        {"validUntil": "2026-11-21T10:30:00Z"},
        {"subjects": [{"kind": "User", "name": "eve"}]},
        {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}},
        {"reason": None},
        {"requestedBy": "boss"},
        {"validUntil": "2026-11-21T12:00:00+01:00"},  # the same instant
        {"validUntil": "2026-11-21T11:00:00.0Z"},
    ):
        answer = users.patch("boss", "fixed", {"spec": change})
        assert "a transient role binding never changes" in answer.message, change
    assert users.patch("boss", "fixed", {"metadata": {"labels": {"a": "b"}}}).ok


def test_nobody_gives_a_role_without_the_right_to_bind_it(users: Users) -> None:
    other = {"kind": "ClusterRole", "name": "cluster-admin"}
    local = {"kind": "Role", "name": "reader"}
    attempts = {
        "dev may not give the ClusterRole reader in namespace shop": users.create("dev", "x"),
        "the ClusterRole cluster-admin in namespace": users.create("boss", "x", roleRef=other),
        "the Role reader in namespace shop": users.create("boss", "x", roleRef=local),
        "the ClusterRole reader in the whole cluster": users.create("boss", "x", kind="Cluster"),
    }
    for message, answer in attempts.items():
        assert answer.status == 403
        assert message in answer.message
        assert "that needs the verb bind on the role" in answer.message


def test_only_the_controller_says_what_is_effective(users: Users) -> None:
    assert users.create("boss", "told").ok
    condition = {
        "type": "effective",
        "status": "True",
        "reason": "Granted",
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    status = {"status": {"conditions": [condition]}}
    answer = users("boss", "PATCH", path("told", "status"), status)
    assert (answer.status, "may not write the status" in answer.message) == (403, True)
    assert users(CONTROLLER, "PATCH", path("told", "status"), status).ok


def test_no_binding_is_left_behind_as_an_orphan(users: Users) -> None:
    assert users.create("boss", "left").ok
    for finalizer in ("orphan", "example.com/hold"):
        held = users.patch("boss", "left", {"metadata": {"finalizers": [finalizer]}})
        assert (held.status, "may not add a finalizer" in held.message) == (403, True)
    hook = {"metadata": {"finalizers": ["metacontroller.io/hook"]}}
    assert users.patch(CONTROLLER, "left", hook).ok
    assert users.patch("boss", "left", {"metadata": {"labels": {"a": "b"}}}).ok
    assert users.patch("boss", "left", {"metadata": {"finalizers": None}}).ok
    attempts = [
        users("boss", "DELETE", path("left"), {"propagationPolicy": "Orphan"}),
        users("boss", "DELETE", path("left"), {"orphanDependents": True}),
        users("boss", "DELETE", f"{path('left')}?propagationPolicy=Orphan"),
        users("boss", "DELETE", path(), {"propagationPolicy": "Orphan"}),
    ]
    for answer in attempts:
        assert answer.status == 403
        assert "access would stay for good" in answer.message
    assert users("boss", "DELETE", path("left"), {"propagationPolicy": "Background"}).ok


def test_nobody_but_the_controller_makes_or_changes_the_bindings(users: Users) -> None:
    created = users.create("boss", "guarded")
    uid = created.body["metadata"]["uid"]
    own = child("guarded", uid=uid)
    forged = users("boss", "POST", BINDINGS, own)
    assert "boss may not create rolebindings guarded: it belongs to a transient" in forged.message
    assert users(CONTROLLER, "POST", BINDINGS, own).ok
    at = f"{BINDINGS}/guarded"
    eve = {"subjects": [{"apiGroup": RBAC, "kind": "User", "name": "eve"}]}
    for answer in (
        users("boss", "PATCH", at, eve),
        users("boss", "PATCH", at, {"metadata": {"ownerReferences": None}}),
        users("boss", "PATCH", at, {"metadata": {"labels": {"controller-uid": "other"}}}),
        users("boss", "DELETE", at),
    ):
        assert (answer.status, "it belongs to a transient role" in answer.message) == (403, True)
    assert users(CONTROLLER, "PATCH", at, {"metadata": {"labels": {"a": "b"}}}).ok
    # What made it is deleted, and so the cluster itself deletes the binding.
    assert users("boss", "DELETE", path("guarded")).ok
    until(lambda: users("boss", "GET", at).status == 404, what="the binding is gone")


def test_the_controller_takes_over_no_binding_of_someone_else(users: Users) -> None:
    assert users("boss", "POST", BINDINGS, child("mine", owner=None)).ok
    owned = {"metadata": {"ownerReferences": child("mine")["metadata"]["ownerReferences"]}}
    answer = users(CONTROLLER, "PATCH", f"{BINDINGS}/mine", owned)
    assert answer.status == 403
    assert "it was there before, and belongs to someone else" in answer.message
    assert users("boss", "DELETE", f"{BINDINGS}/mine").ok


def test_nobody_makes_a_binding_that_the_controller_would_try_to_adopt(users: Users) -> None:
    bait = child("bait", owner=None)
    assert users("boss", "POST", BINDINGS, bait).ok
    label = {"metadata": {"labels": {"controller-uid": "u-1"}}}
    second = {**bait, "metadata": {"name": "second", **label["metadata"]}}
    attempts = [
        users("boss", "PATCH", f"{BINDINGS}/bait", label),
        users("boss", "POST", BINDINGS, second),
    ]
    for answer in attempts:
        assert answer.status == 403
        assert "a controller would take it for its own" in answer.message
    owned = child("of-another", owner="example.com")
    owned["metadata"] |= label["metadata"]
    assert users("boss", "POST", BINDINGS, owned).ok
    for name in ("bait", "of-another"):
        assert users("boss", "DELETE", f"{BINDINGS}/{name}").ok


@pytest.fixture
def with_approvers(users: Users) -> Iterator[None]:
    """In force meanwhile: access has to be approved by a member of the group leads."""
    objects = clients.Objects(users.kubeconfig)
    for manifest in rendered(access={"controller": CONTROLLER, "approvers": ["leads"]}):
        objects.apply(manifest)
    until(
        lambda: users.create("boss", "probe", reason="?").status == 403,
        what="access needs approval",
    )
    yield
    for manifest in rendered(access={"controller": CONTROLLER}):
        objects.apply(manifest)


@pytest.mark.usefixtures("with_approvers")
def test_an_approver_who_did_not_request_it_approves_in_the_own_name(users: Users) -> None:
    unsaid = users.create("boss", "asked")
    assert "has to be approved here by a member of leads" in unsaid.message
    lied = users.create("boss", "asked", needsApproval=True, requestedBy="dev")
    assert "spec.requestedBy is for whoever creates this: write boss" in lied.message
    assert users.create("boss", "asked", needsApproval=True, requestedBy="boss").ok
    leads = ("leads",)
    for answer in (
        users.patch("boss", "asked", {"approvedBy": "boss"}, groups=leads),
        users.patch("dev", "asked", {"approvedBy": "dev"}),
        users.patch("lead", "asked", {"approvedBy": "lead"}),
        users.patch("lead", "asked", {"approvedBy": "other"}, groups=leads),
    ):
        assert (answer.status, "an approver writes the own name" in answer.message) == (403, True)
    approved = users.patch("lead", "asked", {"approvedBy": "lead"}, groups=leads)
    assert approved.ok, approved.message
    withdrawn = users.patch("lead", "asked", {"approvedBy": None}, groups=leads)
    assert "withdraws it by deleting this" in withdrawn.message
    assert users.create("lead", "own", needsApproval=True, requestedBy="lead").ok
    own = users.patch("lead", "own", {"approvedBy": "lead"}, groups=leads)
    assert own.status == 403


@pytest.mark.usefixtures("with_approvers")
def test_nobody_approves_access_for_himself(users: Users) -> None:
    for number, (subject, approver, groups) in enumerate(
        (
            ({"kind": "User", "name": "lead"}, "lead", ("leads",)),
            ({"kind": "Group", "name": "leads"}, "lead", ("leads",)),
            ({"kind": "Group", "name": "system:authenticated"}, "lead", ("leads",)),
            ({"kind": "ServiceAccount", "name": "robot"}, ROBOT, ("leads",)),
        )
    ):
        name = f"for-himself-{number}"
        subjects = [{"kind": "User", "name": "alice"}, subject]
        created = users.create(
            "boss", name, needsApproval=True, requestedBy="boss", subjects=subjects
        )
        assert created.ok, created.message
        own = users.patch(approver, name, {"approvedBy": approver}, groups=groups)
        assert own.status == 403, subject
        assert f"{approver} may not approve this, and would get the access by it" in own.message
    others = users.patch("second", "for-himself-0", {"approvedBy": "second"}, groups=("leads",))
    assert others.ok, others.message


@pytest.mark.usefixtures("with_approvers")
def test_no_service_account_asks_for_whoever_approves(users: Users) -> None:
    answer = users.create(ROBOT, "robots", needsApproval=True, requestedBy=ROBOT)
    assert answer.status == 403
    assert f"{ROBOT} may not ask for access that has to be approved" in answer.message
    asking = {"controller": CONTROLLER, "approvers": ["leads"], "requestsByServiceAccounts": True}
    objects = clients.Objects(users.kubeconfig)
    for manifest in rendered(access=asking):
        objects.apply(manifest)
    until(
        lambda: users.create(ROBOT, "robots", needsApproval=True, requestedBy=ROBOT).ok,
        what="the settings allow it",
    )

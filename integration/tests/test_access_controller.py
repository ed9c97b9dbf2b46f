"""`fairlead controller` on the embedded cluster: access begins, ends, and is what was decided."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from access_world import (
    BINDINGS,
    CLUSTER,
    GROUP,
    NAMESPACE,
    RBAC,
    RIGHTS,
    World,
    at,
    bound,
    path,
    role,
)
from applied import applied
from click.testing import CliRunner
from profiles import EVERYTHING, SETTINGS
from waits import DEADLINE, until

from fairlead.access import instants, requests
from fairlead.access.requests import Request
from fairlead.cli.operations.access import command
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import names
from fairlead.deployment.names import CONTROLLER
from fairlead.kube.errors import Refused
from fairlead.operations import deploy, transient_access, uninstall
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

WITHOUT = EVERYTHING.model_copy(update={"access": None})


def send(cluster: EmbeddedCluster, number: signal.Signals, server: str = CONTROLLER) -> None:
    """Send a signal to a server, once it runs."""
    pid = until(lambda: cluster.servers()[server]["pid"], what=f"{server} runs")
    os.kill(int(pid), number)


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    with applied(cluster.objects(), RIGHTS):
        yield World(cluster)
    deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())


def test_a_subject_has_the_role_in_the_window_alone(world: World) -> None:
    world.create("early", 3600, 7200)
    world.create("alice", -1, 3600)
    until(lambda: world.can("alice"), "alice has access")
    until(lambda: world.reason("alice") == "Granted", "the status says so")
    until(lambda: world.reason("early") == "Pending", "the other one is pending")
    assert not world.can("early")
    assert not world.can("alice", "default")
    (row,) = transient_access.controllers(world.cluster)
    assert (row["healthy"], row["leading"], row["bindings"]) == (True, True, 1)
    assert "leading" in "".join(world.cluster.logs("controller", 1_000, False))
    assert world.users("boss", "DELETE", path("alice")).ok
    until(lambda: not world.can("alice"), "alice has lost it")
    assert world.binding("alice") is None


def test_access_begins_and_ends_by_itself(world: World) -> None:
    world.create("short", 2, 12)
    until(lambda: world.reason("short") == "Expired", "it has ended")
    assert not world.can("short")
    assert world.binding("short") is None
    until(lambda: world.events("short") == ["Granted", "Ended"], "the trail tells both")
    assert world.conditions("short")["failed"]["status"] == "False"


def test_in_the_whole_cluster(world: World) -> None:
    world.create("wide", -1, 3600, kind="Cluster")
    until(lambda: world.can("wide", "default"), "wide may list pods anywhere")
    assert world.users("boss", "DELETE", f"/apis/{GROUP}/v1/{CLUSTER}/wide").ok
    until(lambda: not world.can("wide", "default"), "wide has lost it")
    until(lambda: world.events("wide") == ["Granted", "Ended"], "the trail tells both")


def test_what_is_changed_or_deleted_by_hand_comes_back(world: World) -> None:
    world.create("kept", -1, 3600)
    until(lambda: world.can("kept"), "kept has access")
    objects = world.cluster.objects()
    objects.delete(f"{RBAC}/v1", "RoleBinding", "kept", NAMESPACE)  # as an administrator
    until(lambda: world.can("kept") and "Repaired" in world.events("kept"), "it is back")
    # The guard refuses changes, so it is taken away for a moment.
    guard = "ValidatingAdmissionPolicyBinding", "fairlead-access-bindings"
    manifest = objects.get("admissionregistration.k8s.io/v1", *guard)
    assert manifest is not None
    objects.delete("admissionregistration.k8s.io/v1", *guard)
    eve = {"apiGroup": RBAC, "kind": "User", "name": "eve"}
    until(
        lambda: (
            world.users(
                "boss", "PATCH", f"{BINDINGS}/kept", {"metadata": {"labels": {"a": "b"}}}
            ).ok
        ),
        "the guard is gone",
    )
    binding = world.binding("kept")
    assert binding is not None
    change = {
        "metadata": {"annotations": {"access.fairlead.dev/valid-until": "9999-01-01T00:00:00Z"}},
        "subjects": [*binding["subjects"], eve],
    }
    objects.merge(dict(binding), change)
    until(lambda: not world.can("eve"), "eve has lost it again")
    until(
        lambda: (
            (found := world.binding("kept"))
            and found["metadata"]["annotations"] == binding["metadata"]["annotations"]
        ),
        "the end is written into it again",
    )
    metadata = {"name": manifest["metadata"]["name"], "labels": manifest["metadata"]["labels"]}
    objects.apply({**manifest, "metadata": metadata})
    assert world.users("boss", "DELETE", path("kept")).ok


def test_a_name_that_is_taken_is_left_alone(world: World) -> None:
    strangers = bound("RoleBinding", "taken", "reader", "somebody")
    assert world.users("boss", "POST", BINDINGS, strangers).ok
    uid = (world.binding("taken") or {})["metadata"]["uid"]
    world.create_until("NameTaken", "taken", 20)
    assert not world.can("taken")
    until(lambda: world.reason("taken") == "Expired", "its window is over")
    binding = world.binding("taken")
    assert binding is not None
    assert binding["metadata"]["uid"] == uid
    assert [subject["name"] for subject in binding["subjects"]] == ["somebody"]


def test_a_condition_says_that_a_name_is_taken(world: World) -> None:
    strangers = bound("RoleBinding", "occupied", "reader", "somebody")
    assert world.users("boss", "POST", BINDINGS, strangers).ok
    world.create("occupied", -1, 3600)
    until(lambda: world.reason("occupied") == "NameTaken", "the condition says so")
    assert world.conditions("occupied")["failed"]["status"] == "True"
    assert world.users("boss", "DELETE", f"{BINDINGS}/occupied").ok
    until(lambda: world.can("occupied"), "the name is free")


def test_a_name_that_is_given_again_means_the_new_one(world: World) -> None:
    world.create("again", -1, 3600)
    until(lambda: world.can("again"), "again has access")
    assert world.users("boss", "DELETE", path("again")).ok
    world.create("again", -1, 3600, subjects=[{"kind": "User", "name": "other"}])
    until(lambda: world.can("other"), "other has access")
    assert not world.can("again")
    assert world.users("boss", "DELETE", path("again")).ok


def test_a_namespace_that_is_going_takes_its_access_with_it_and_no_other(world: World) -> None:
    objects, name = world.cluster.objects(), "going"
    objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    held = {"name": "held", "namespace": name, "finalizers": ["example.com/hold"]}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held}
    objects.apply(config_map)
    asking = Request(
        (name, "gone"),
        ("ClusterRole", "reader"),
        [{"kind": "User", "name": "gone"}],
        datetime.now(UTC),
        timedelta(hours=1),
        None,
        needs_approval=False,
    )
    requests.grant(objects, asking)
    until(lambda: world.can("gone", name), "gone has access")
    objects.delete("v1", "Namespace", name)
    until(lambda: not world.can("gone", name), "gone has lost it, and the namespace still goes")
    with pytest.raises(Refused, match="being terminated"):
        requests.grant(objects, asking)
    world.create("stays", -1, 3600)
    until(lambda: world.can("stays"), "everyone else's begins")
    objects.merge(config_map, {"metadata": {"finalizers": None}})
    until(lambda: objects.get("v1", "Namespace", name) is None, "the namespace is gone")
    assert world.can("stays")


def test_an_end_that_somebody_prevents_is_told(world: World) -> None:
    objects, api = world.cluster.objects(), "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [RBAC], "apiVersions": ["*"], "resources": ["rolebindings"]}
    rule |= {"operations": ["DELETE"], "resourceNames": ["stuck", "probe"]}
    policy = {"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "somebody-elses"}}
    constraints = {"resourceRules": [rule]}
    spec = {"matchConstraints": constraints, "validations": [{"expression": "false"}]}
    objects.apply({"apiVersion": api, **policy, "spec": spec})
    in_force = {**policy, "apiVersion": api, "kind": f"{policy['kind']}Binding"}
    in_force["spec"] = {"policyName": "somebody-elses", "validationActions": ["Deny"]}
    objects.apply(in_force)
    probe = f"{BINDINGS}/probe"
    assert world.users(
        "boss", "POST", BINDINGS, bound("RoleBinding", "probe", "reader", "nobody")
    ).ok
    until(lambda: not world.users("boss", "DELETE", f"{probe}?dryRun=All").ok, "it is in force")
    world.create_until("Granted", "stuck", 12)
    until(lambda: world.reason("stuck") == "Ending", "the status says that it is still there")
    (row,) = transient_access.controllers(world.cluster)
    assert any("ending shop/stuck fails" in reason for reason in row["reasons"]), row
    objects.delete(api, str(in_force["kind"]), "somebody-elses")
    until(lambda: world.reason("stuck") == "Expired", "it has ended")
    assert not world.can("stuck")
    assert world.users("boss", "DELETE", probe).ok


def test_a_role_that_is_missing_or_may_not_be_given(world: World) -> None:
    world.create("lost", -1, 3600, roleRef={"kind": "ClusterRole", "name": "missing"})
    more = world.users.create(
        "boss", "more", requestedBy="boss", roleRef={"kind": "ClusterRole", "name": "other"}
    )
    assert more.status == 403
    assert "the ClusterRole other is not in access.roles of the settings" in more.message
    assert "these are reader, missing. To have it added, ask #platform" in more.message
    until(lambda: world.reason("lost") == "RoleNotFound", "the role is missing")
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    world.cluster.objects().apply(role("missing", rule))
    until(lambda: world.can("lost"), "it is given once the role is there")
    until(lambda: world.conditions("lost")["failed"]["status"] == "False", "nothing has failed")


def test_who_has_lost_the_right_no_longer_gives_access(world: World) -> None:
    objects = world.cluster.objects()
    objects.apply(bound("RoleBinding", "temp-binds", "binder", "temp"))
    until(
        lambda: world.users.create("temp", "probe", requestedBy="temp").status in (201, 409),
        "temp may create them",
    )
    world.create("late", -1, 3600, by="temp", needsApproval=True)
    objects.delete(f"{RBAC}/v1", "RoleBinding", "temp-binds", NAMESPACE)
    requests.approve(objects, (NAMESPACE, "late"))
    until(lambda: world.reason("late") == "RequesterMayNotBind", "the condition says why")
    assert not world.can("late")
    message = world.conditions("late")["failed"]["message"]
    assert "neither temp (requestedBy) nor the groups system:authenticated" in message
    assert "may bind the ClusterRole reader: have somebody create it again who may" in message
    objects.apply(bound("RoleBinding", "temp-binds", "binder", "temp"))
    until(lambda: world.can("late"), "the right is back, and so is the access")


def test_the_right_may_come_of_a_group_that_the_requester_was_in(world: World) -> None:
    spec = {"validFrom": at(-1), "validUntil": at(60), "requestedBy": "boss"}
    lied = world.users.create("boss", "group", requestedByGroups=["system:masters"], **spec)
    assert lied.status == 403
    assert "a group that boss is not in" in lied.message
    unsaid = world.users.create("boss", "unsaid", validFrom=at(-1), validUntil=at(60))
    assert unsaid.ok, unsaid.message
    written = unsaid.body["spec"]
    assert (written["requestedBy"], written["requestedByGroups"]) == (
        "boss",
        ["system:authenticated"],
    )


def test_people_grant_see_and_revoke_access_from_the_command_line(world: World) -> None:
    def run(*arguments: str) -> Any:
        flags = ["--name", world.cluster.name, "--output", "json"]
        result = CliRunner().invoke(command, [*arguments, *flags])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def line() -> dict[str, Any]:
        lines: list[dict[str, Any]] = run("list", "-n", NAMESPACE)
        return next(each for each in lines if each["name"] == "carol")

    place = ("-n", NAMESPACE)
    given = ("--clusterrole", "reader", "--user", "carol", "--for", "2h", "--reason", "a test")
    run("grant", "carol", *place, *given, "--from", at(-1))
    until(lambda: world.can("carol") and line()["effective"], "carol has access")
    assert 0 < line()["left"] <= 7200
    assert line()["subjects"] == ["User carol"]
    assert run("revoke", "carol", *place)["name"] == "carol"
    assert world.binding("carol") is None
    until(lambda: not world.can("carol"), "carol has lost it")
    world.create("asking", -1, 3600, needsApproval=True)
    until(lambda: world.reason("asking") == "NotApproved", "nobody has approved it")
    assert run("approve", "asking", *place)["approvedBy"]
    until(lambda: world.can("asking"), "it is approved")
    until(
        lambda: (
            [each["event"] for each in run("history", *place) if each["name"] == "carol"]
            == ["Granted", "Ended"]
        ),
        "the history tells both",
    )


def test_a_grant_that_gives_nothing_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "SETTLED", DEADLINE)  # the command does not wait that long
    world.cluster.objects().delete(f"{RBAC}/v1", "ClusterRole", "missing")
    arguments = ["grant", "in-vain", "-n", NAMESPACE, "--name", world.cluster.name]
    arguments += ["--clusterrole", "missing", "--user", "carol", "--for", "2h"]
    for _ in range(2):  # so it can be given again when its cause is mended
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == 1
        assert str(result.exception).startswith(
            "in-vain gives no access, and is deleted again: RoleNotFound: "
        )
    assert world.users("boss", "GET", path("in-vain")).status == 404


def test_without_opa_nothing_begins_and_everything_ends(world: World) -> None:
    cluster = world.cluster
    world.create_until("Granted", "ending", 25)
    argv, environment = cluster._remembered("opa-started")
    cluster.stop_server("opa")  # a process that hangs would be restarted
    try:
        world.create("waiting", -1, 3600)
        until(lambda: not world.can("ending"), "it ends on time")
        assert instants.nanoseconds(at(0)) >= instants.nanoseconds(
            world.users("boss", "GET", path("ending")).body["spec"]["validUntil"]
        )
        until(lambda: world.reason("ending") == "Expired", "the status says so")
        assert not world.can("waiting")
    finally:
        cluster.start_server("opa", argv, env=environment)
    until(lambda: world.can("waiting"), "OPA is back, and access begins")


def test_a_controller_that_is_killed_goes_on_where_it_was(world: World) -> None:
    world.create_until("Granted", "over", 20)
    send(world.cluster, signal.SIGKILL)
    world.create("meanwhile", -1, 3600)
    until(lambda: world.can("meanwhile"), "the next process gives access")
    until(lambda: world.reason("over") == "Expired", "and takes it away")
    assert not world.can("over")


def test_an_end_while_the_api_server_is_away_comes_when_it_is_back(world: World) -> None:
    world.create_until("Granted", "missed", 20)
    send(world.cluster, signal.SIGKILL, "kube-apiserver")
    until(lambda: world.cluster.objects().list("v1", "Namespace", None), "it is back")
    until(lambda: world.reason("missed") == "Expired", "access has ended")
    assert not world.can("missed")
    world.create("afterwards", -1, 3600)
    until(lambda: world.can("afterwards"), "and others begin")


def test_of_two_controllers_one_works(world: World) -> None:
    cluster = world.cluster
    argv, _ = cluster._remembered(f"{CONTROLLER}-started")
    (port,) = cluster.free_ports(1)
    others = {"--replica": "second", "--health-endpoint": f"127.0.0.1:{port}"}
    second = [
        f"{flag}={others[flag]}" if (flag := part.partition("=")[0]) in others else part
        for part in argv
    ]
    (opa,) = cluster.opas()
    ready = f"https://127.0.0.1:{port}/health"
    cluster.start_server("second", second, ready=ready, ca=opa.ca)
    try:
        world.create("both", -1, 3600)
        until(lambda: world.events("both") == ["Granted"], "one of them gives access")
        send(cluster, signal.SIGSTOP)
        world.create_until("Granted", "next", 30)
        send(cluster, signal.SIGCONT)
        until(lambda: world.reason("next") == "Expired", "it ends")
        until(lambda: "Ended" in world.events("next"), "the trail tells it")
        assert world.events("next") == ["Granted", "Ended"]
        assert world.can("both")
    finally:
        cluster.stop_server("second")


def test_a_lease_that_somebody_deletes_is_made_again(world: World) -> None:
    objects = world.cluster.objects()
    lease = ("coordination.k8s.io/v1", "Lease", CONTROLLER, names.NAMESPACE)
    world.create_until("Granted", "held", 30)
    former = objects.get(*lease)
    objects.delete(*lease)
    world.create("later", -1, 3600)
    until(lambda: world.can("later"), "more access begins")
    until(lambda: world.reason("held") == "Expired", "and ends")
    assert not world.can("held")
    restored = objects.get(*lease)
    assert former
    assert restored
    assert restored["metadata"]["uid"] != former["metadata"]["uid"]
    assert restored["metadata"]["labels"] == {names.PART_OF: "fairlead"}


# Runs `fairlead` with a clock that is off by as many nanoseconds as a file says.
SHIFTED = """
import sys, time, pathlib
offset, real = pathlib.Path(sys.argv.pop(1)), time.time_ns
time.time_ns = lambda: real() + int(offset.read_text() or 0)
from fairlead.__main__ import main
main()
"""


def test_a_clock_that_is_set_leaves_no_access_that_has_ended(world: World, tmp_path: Path) -> None:
    cluster, offset = world.cluster, tmp_path / "offset"
    argv, _ = cluster._remembered(f"{CONTROLLER}-started")
    (opa,) = cluster.opas()

    def set_by(hours: int) -> None:
        new = tmp_path / "new"
        new.write_text(str(hours * 3600 * instants.SECOND))
        new.replace(offset)

    set_by(0)
    cluster.stop_server(CONTROLLER)
    arguments = argv[argv.index("controller") :]
    endpoint = next(part for part in arguments if part.startswith("--health-endpoint="))
    ready = f"https://{endpoint.partition('=')[2]}/health"
    shifted = [sys.executable, "-c", SHIFTED, str(offset), *arguments]
    cluster.start_server("shifted", shifted, ready=ready, ca=opa.ca)
    try:
        world.create("stepped", -1, 1800)
        until(lambda: world.can("stepped"), "stepped has access")
        set_by(1)
        until(lambda: not world.can("stepped"), "by the new time, it has ended")
        until(lambda: world.reason("stepped") == "Expired", "the status says so")
        set_by(0)
        until(lambda: world.can("stepped"), "the clock was wrong")
        world.create_until("Granted", "behind", 15)
        set_by(-1)
        until(lambda: world.binding("behind") is None, "it ends by OPA's clock")
        set_by(0)
        until(lambda: world.reason("behind") == "Expired", "and stays so")
        assert not world.can("behind")
    finally:
        cluster.stop_server("shifted")
        cluster.start_server(CONTROLLER, argv, ready=ready, ca=opa.ca)


def end_all(world: World) -> None:
    """Delete all that the tests above made."""
    transient_access.end_all(world.cluster.objects(), progress=Progress())


def test_a_deployment_names_access_by_roles_that_it_leaves_out(world: World) -> None:
    end_all(world)
    world.create("narrow", -1, 3600)
    until(lambda: world.reason("narrow") == "Granted", "narrow has access")
    told: list[str] = []

    class Told(Progress):
        def warn(self, message: str) -> None:
            told.append(message)

    narrower = EVERYTHING.model_copy(update={"access": Access(roles=["missing"])})
    deploy.deploy(world.cluster, PolicySet.load(narrower), progress=Told())
    (warning,) = [text for text in told if "access.roles" in text]
    assert "User narrow ClusterRole reader until " in warning
    assert "run `fairlead access revoke" in warning
    assert world.can("narrow")
    told.clear()
    deploy.deploy(world.cluster, PolicySet.load(EVERYTHING), progress=Told())
    assert not [text for text in told if "access.roles" in text]
    assert world.users("boss", "DELETE", path("narrow")).ok


def test_where_access_was_switched_off_nobody_asks_for_it(world: World) -> None:
    """What was asked for without the guards would be given when it is switched on again."""
    cluster = world.cluster
    end_all(world)
    deploy.deploy(cluster, PolicySet.load(WITHOUT), progress=Progress())
    off = "transient access is switched off in this cluster"
    until(lambda: off in world.users.create("boss", "meanwhile").message, "the guard is in force")
    answer = world.users.create("boss", "meanwhile")
    assert "(access in fairlead.yaml), ask #platform" in answer.message
    deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())
    until(
        lambda: world.users.create("boss", "again", requestedBy="boss").ok,
        "it is switched on again",
    )


def test_what_would_stay_for_good_is_ended_first(world: World) -> None:
    """The last test: nothing is left of the deployment afterwards."""
    cluster = world.cluster
    world.create("forgotten", -1, 3600)
    until(lambda: world.reason("forgotten") == "Granted", "forgotten has access")
    with pytest.raises(UsageError, match="would give access for good without the controller"):
        deploy.deploy(cluster, PolicySet.load(WITHOUT), progress=Progress())
    with pytest.raises(UsageError, match="would give access for good without the controller"):
        deploy.deploy(cluster, PolicySet.load(SETTINGS), engine="cel", progress=Progress())
    assert world.can("forgotten")
    uninstall.uninstall(cluster, progress=Progress())
    assert not world.can("forgotten")
    assert world.binding("forgotten") is None

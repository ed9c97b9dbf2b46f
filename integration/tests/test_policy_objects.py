"""Settings and policies as objects: what is applied is in force, what is deleted is gone, and what
is wrong changes nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import command_line
import pytest
from applied import applied
from applied import fairlead_manifest as fairlead
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import CONTROLLER, NAMESPACE, OBJECTS_WEBHOOK, POLICIES
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import NAME, PINNED, VERSION
from fairlead.operations import deploy, history, policy_list, push, rollback
from fairlead.operations.status import status
from fairlead.policy import policy_objects
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it kills the controller")

QUIET = Progress()
ADMISSION = "admissionregistration.k8s.io/v1"
MARK = "example.com/forbidden"
REGO = f"""# METADATA
# title: Forbidden label
# description: No pod has the label.
package forbidden_label

import data.review

decision := {{"deny": deny, "patch": [], "warn": set()}}

deny contains sprintf("pod %q is forbidden", [review.name]) if {{
	review.kind == ["", "Pod"]
	input.request.object.metadata.labels["{MARK}"]
}}
"""
INTENT = {"requests": [{"kinds": ["v1/Pod"], "operations": ["CREATE"]}]}
Object = dict[str, Any]
Make = Callable[..., Any]


def policy(name: str = "forbidden-label", **spec: Any) -> Object:
    written = {"rego": REGO, "intent": INTENT, **spec}
    return {"apiVersion": VERSION, "kind": "Policy", "metadata": {"name": name}, "spec": written}


@pytest.fixture(scope="module", autouse=True)
def _deployed_again(cluster: EmbeddedCluster) -> Iterator[None]:
    """In the end, what files say is in force."""
    yield
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)


@pytest.fixture(autouse=True)
def _without_objects(objects: clients.Objects) -> Iterator[None]:
    """No object is there before the test, and none after it."""
    yield
    objects.delete(VERSION, "Fairlead", NAME)
    for each in objects.list(VERSION, "Policy", None):
        objects.delete(VERSION, "Policy", each["metadata"]["name"])


@pytest.fixture
def apply(objects: clients.Objects) -> Callable[[Object], str]:
    """Apply an object, and return the message once the controller has judged it."""

    def applied(manifest: Object) -> str:
        generation = objects.apply(manifest)["metadata"]["generation"]
        name = manifest["metadata"]["name"]

        def judged() -> str | None:
            live = objects.get(VERSION, manifest["kind"], name) or {}
            for condition in live.get("status", {}).get("conditions", ()):
                if condition["observedGeneration"] == generation:
                    return str(condition["message"])
            return None

        return until(judged, what=f"the controller has judged {name}", pause=0.2)

    return applied


@pytest.fixture
def marked(objects: clients.Objects, new_namespace: Make, pod: Make) -> Callable[[], str]:
    """Creates, as a dry run, a pod with the label. Returns why it is refused, or nothing."""
    at = new_namespace()

    def outcome() -> str:
        manifest = pod(at)
        manifest["metadata"]["labels"] = {MARK: "yes"}
        try:
            objects.apply(manifest, dry_run=True)
        except Refused as error:
            return str(error)
        return ""

    return outcome


IN_FORCE = "in force on 2/2 OPAs"


def test_a_policy_is_in_force_when_it_is_applied_and_gone_when_it_is_deleted(
    objects: clients.Objects, apply: Callable[[Object], str], marked: Callable[[], str]
) -> None:
    assert apply(fairlead(contact="#ours")) == IN_FORCE
    assert marked() == ""
    assert apply(policy()) == IN_FORCE
    assert 'pod "' in marked()
    assert "is forbidden (ask #ours)" in marked()
    assert apply(policy(enforcement="warn")) == IN_FORCE
    assert marked() == ""
    assert apply(policy(exempt={"users": ["fairlead-admin"]})) == IN_FORCE
    assert marked() == ""
    objects.delete(VERSION, "Policy", "forbidden-label")
    webhooks = ADMISSION, "ValidatingWebhookConfiguration", "fairlead"
    until(lambda: "forbidden-label" not in str(objects.get(*webhooks)), what="its webhook is gone")
    until(
        lambda: status_of(objects)["revision"] == revision(objects), what="the status says so, too"
    )


def status_of(objects: clients.Objects) -> Object:
    live = objects.get(VERSION, "Fairlead", NAME)
    assert live
    return dict(live["status"])


def revision(objects: clients.Objects) -> str:
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    assert config_map
    return str(config_map["metadata"]["annotations"]["fairlead.dev/revision"])


WRONG = [
    (policy(rego=REGO + "\nbroken := nothing_there\n"), "spec.rego:15: rego_unsafe_var_error"),
    (policy(rego="package forbidden_label\n\nx := {\n"), "spec.rego:3: rego_parse_error"),
    (policy(rego=REGO.replace("package f", "package system.f")), "package system"),
    (policy(rego=REGO.replace('"patch": [], ', "")), "its decision has no 'patch'"),
    (policy(parameters={"label": 1}), "spec.parameters: unknown key 'label'"),
    (policy("node-pool"), "the policies node_pool are there already"),
]


def test_what_is_wrong_is_refused_with_its_line(
    objects: clients.Objects, apply: Callable[[Object], str]
) -> None:
    apply(fairlead())
    for wrong, message in WRONG:
        refused = f"Policy {wrong['metadata']['name']}: .*{re.escape(message)}"
        with pytest.raises(Refused, match=refused):
            objects.apply(wrong)
    assert objects.list(VERSION, "Policy", None) == []
    with pytest.raises(Refused, match="defaultPool 'a' is not one of pools: b"):
        objects.apply(fairlead(defaultPool="a", pools={"b": {}}))
    assert apply(policy()) == IN_FORCE
    with pytest.raises(Refused, match=r"spec\.rego:3: rego_parse_error"):
        objects.apply(policy(rego="package forbidden_label\n\nx := {\n"))
    objects.delete(VERSION, "Policy", "forbidden-label")


@pytest.fixture
def unchecked(
    cluster: EmbeddedCluster, objects: clients.Objects, apply: Callable[[Object], str]
) -> Iterator[Callable[[Object], str]]:
    """Stores an object as if no controller answered, and returns what becomes of it."""
    webhook = {
        "apiVersion": ADMISSION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": OBJECTS_WEBHOOK},
    }
    someone = clients.Objects(cluster.kubeconfig, field_manager="someone")

    def select(**labels: str) -> None:
        selector = {"path": "/webhooks/0/objectSelector", "value": {"matchLabels": labels}}
        someone.patch(webhook, [{"op": "replace", **selector}])

    def stored(manifest: Object) -> str:
        select(nothing="has-this")

        def once() -> bool:
            with contextlib.suppress(Refused):
                objects.apply(manifest)
                return True
            return False

        until(once, what="the API server asks no controller")
        return apply(manifest)

    yield stored
    select()


def test_what_is_stored_unchecked_changes_nothing_and_its_status_has_the_line(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    apply: Callable[[Object], str],
    unchecked: Callable[[Object], str],
    marked: Callable[[], str],
) -> None:
    apply(fairlead())
    good = policy("good", rego=REGO.replace("forbidden_label", "good"))
    assert apply(good) == IN_FORCE
    before = revision(objects)
    name = ""
    for wrong, message in WRONG:
        if name and name != wrong["metadata"]["name"]:
            objects.delete(VERSION, "Policy", name)
        name = wrong["metadata"]["name"]
        assert message in unchecked(wrong)
        assert revision(objects) == before
    assert "is forbidden" in marked(), "the policy that is right stays in force"
    problems = status(cluster)["problems"]
    assert any(f"Policy {name} is not in force: " in problem for problem in problems)
    assert not any("Policy good" in problem for problem in problems)
    # The next change of another object is held up, and says by whom.
    waiting = apply(fairlead(contact="#other"))
    assert f"what was in force before stays so: Policy {name}: " in waiting
    objects.delete(VERSION, "Policy", name)
    until(lambda: status_of(objects)["conditions"][0]["status"] == "True", what="all is in force")
    assert "ask #other" in marked()
    unchecked(policy("good", rego="package good\n\nx := {\n"))
    assert live(objects, "good")["status"]["errors"][0]["line"] == 3


def live(objects: clients.Objects, name: str) -> Object:
    policy_object = objects.get(VERSION, "Policy", name)
    assert policy_object
    return policy_object


def test_the_status_has_what_was_decided_and_the_list_of_policies_shows_it(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    apply: Callable[[Object], str],
    marked: Callable[[], str],
) -> None:
    apply(fairlead())
    assert apply(policy()) == IN_FORCE
    assert "is forbidden" in marked()

    def decided() -> bool:
        status = live(objects, "forbidden-label")["status"]
        return bool(status.get("decisions", {}).get("denied"))

    until(decided, what="the controller has asked the sidecars")
    last = live(objects, "forbidden-label")["status"]["lastDecision"]
    assert (last["kind"], bool(last["time"])) == ("Pod", True)
    (row,) = (row for row in policy_list.listed(objects) if row["kind"] == "Policy")
    assert (row["name"], row["status"], row["installed"]) == ("forbidden-label", "ok", "2/2")
    assert f"{last['outcome']} Pod " in row["decided"]


def test_settings_that_contradict_each_other_leave_the_last_good_ones_in_force(
    objects: clients.Objects,
    apply: Callable[[Object], str],
    unchecked: Callable[[Object], str],
) -> None:
    assert apply(fairlead(contact="#ours")) == IN_FORCE
    before = revision(objects)
    message = unchecked(fairlead(defaultPool="a", pools={"b": {}}))
    assert "spec: defaultPool 'a' is not one of pools: b" in message
    assert revision(objects) == before
    message = apply(fairlead(replicas=1, contact="#ours"))
    assert "replicas changed since the last deployment: run `fairlead deploy`" in message
    with pytest.raises(Refused, match=r"spec\.poools: field not declared in schema"):
        objects.apply(fairlead(poools={}))
    with pytest.raises(Refused, match=r"spec\.podSelector: Unsupported value"):
        objects.apply(fairlead(podSelector="maybe"))
    other = {**fairlead(), "metadata": {"name": "other"}}
    with pytest.raises(Refused, match="there is one object of this kind"):
        objects.apply(other)


def test_a_push_changes_the_objects(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    apply: Callable[[Object], str],
    marked: Callable[[], str],
    tmp_path: Path,
) -> None:
    apply(fairlead())
    folder = tmp_path / "policies" / "forbidden_label"
    command_line.fairlead("new", "policy", "forbidden-label", "--folder", str(folder.parent))
    settings = Settings(policies=[str(folder.parent)], contact="#pushed")
    pushed = push.push(cluster, PolicySet.load(settings), message="the first", progress=QUIET)
    assert {opa["revision"] for opa in pushed["opa"]} == {pushed["revision"]}
    assert (len(pushed["opa"]), pushed["previous"] != pushed["revision"]) == (2, True)
    (latest, *_) = history.entries(objects)
    assert (latest.number, latest.action, latest.message) == (pushed["entry"], "push", "the first")
    assert "has the label example.com/forbidden" in marked()
    apply(policy("by-hand", rego=REGO.replace("forbidden_label", "by_hand")))

    (folder / "forbidden_label.rego").write_text("package forbidden_label\n\nx := {\n")
    with pytest.raises(FairleadError, match=r"forbidden_label\.rego:3"):
        push.push(cluster, PolicySet.load(settings), progress=QUIET)
    without = push.push(cluster, PolicySet.load(Settings(contact="#pushed")), progress=QUIET)
    assert any("forbidden-label is deleted" in warning for warning in without["warnings"])
    names = [each["metadata"]["name"] for each in objects.list(VERSION, "Policy", None)]
    assert names == ["by-hand"]
    assert "is forbidden" in marked()
    assert deploy.plan(cluster, PolicySet.load(Settings()), progress=QUIET)
    assert {outcome.action for outcome in deployed(cluster)} == {"unchanged"}
    assert "is forbidden" in marked()


def test_a_rollback_pins_a_revision_until_the_next_push(
    cluster: EmbeddedCluster,
    objects: clients.Objects,
    apply: Callable[[Object], str],
    marked: Callable[[], str],
) -> None:
    apply(fairlead())
    first = revision(objects)
    apply(policy())
    second = revision(objects)
    assert "is forbidden" in marked()
    done = rollback.rollback(cluster, None, message="it is wrong", progress=QUIET)
    assert (done["revision"], done["previous"], done["direction"]) == (first, second, "back")
    assert {opa["revision"] for opa in done["opa"]} == {first}
    (latest, *_) = history.entries(objects)
    assert (latest.number, latest.action, latest.message) == (
        done["entry"],
        "rollback",
        "it is wrong",
    )
    assert marked() == ""
    assert "is pinned in place of the objects" in apply(policy(enforcement="warn"))
    assert (revision(objects), status_of(objects)["revision"]) == (first, first)
    (problem,) = (one for one in status(cluster)["problems"] if "pinned" in one)
    assert problem.startswith(f"Fairlead {NAME} is not in force: revision {first} is pinned")
    with pytest.raises(UsageError, match="is pinned in place of the objects: run `fairlead push`"):
        deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)
    os.kill(until(lambda: running(cluster), what="the controller runs"), signal.SIGKILL)
    forward = rollback.rollback(cluster, second, progress=QUIET)
    assert (forward["revision"], forward["direction"]) == (second, "forward")
    assert "is forbidden" in marked()
    objects.merge(fairlead(), {"metadata": {"annotations": {PINNED: "0000"}}})
    until(
        lambda: (
            "is neither the number of an entry" in status_of(objects)["conditions"][0]["message"]
        ),
        what="a revision that nobody knows changes nothing",
    )
    assert "is forbidden" in marked()
    push.push(cluster, PolicySet.load(Settings()), progress=QUIET)
    assert apply(policy()) == IN_FORCE


def deployed(cluster: EmbeddedCluster) -> list[Any]:
    """What became of each object when files without the policies were deployed."""
    outcomes: list[Any] = []
    deploy.deploy(cluster, PolicySet.load(Settings()), outcomes=outcomes, progress=QUIET)
    return outcomes


def running(cluster: EmbeddedCluster) -> int | None:
    pid: int | None = cluster.servers()[CONTROLLER]["pid"]
    return pid


def test_a_controller_that_is_killed_goes_on_when_it_is_back(
    cluster: EmbeddedCluster, apply: Callable[[Object], str], marked: Callable[[], str]
) -> None:
    apply(fairlead())
    for number in range(2):
        os.kill(until(lambda: running(cluster), what="the controller runs"), signal.SIGKILL)
        assert apply(policy(instances={f"again-{number}": {}})) == IN_FORCE
    assert "is forbidden" in marked()


def test_only_administrators_may_change_the_objects(
    cluster: EmbeddedCluster, objects: clients.Objects, apply: Callable[[Object], str]
) -> None:
    apply(fairlead())
    apply(policy())
    rbac: Object = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "writes-policies"},
    }
    resources = ["fairleads", "policies", "fairleads/status", "policies/status"]
    rules = [{"apiGroups": ["policy.fairlead.dev"], "resources": resources, "verbs": ["*"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    rights = (
        {**rbac, "kind": "ClusterRole", "rules": rules},
        {
            **rbac,
            "kind": "ClusterRoleBinding",
            "roleRef": {**role, "name": "writes-policies"},
            "subjects": [{"kind": "User", "name": "tenant"}],
        },
    )
    path = f"/apis/{VERSION}/policies/forbidden-label"
    with applied(objects, rights):
        tenant = clients.Objects(cluster.kubeconfig, user="tenant")
        with pytest.raises(Refused, match="may not change fairleads fairlead: it belongs to"):
            tenant.merge(fairlead(), {"spec": {"contact": "#mine"}})
        with pytest.raises(Refused, match="may not change policies forbidden-label"):
            tenant.merge(policy(), {"spec": {"enforcement": "warn"}})
        with pytest.raises(Refused, match="may not change policies forbidden-label"):
            tenant.merge_status(policy(), {"installed": "0/2"})
        with pytest.raises(Refused, match="may not change policies forbidden-label"):
            tenant.delete(VERSION, "Policy", "forbidden-label")
        with pytest.raises(Refused, match="may not change policies mine"):
            tenant.create(policy("mine"))
        assert tenant.find(path), "reading is a matter of RBAC"


def test_without_the_object_fairlead_policies_have_no_effect(
    objects: clients.Objects, apply: Callable[[Object], str], marked: Callable[[], str]
) -> None:
    objects.apply(policy())
    apply(fairlead())
    assert "is forbidden" in marked()
    objects.delete(VERSION, "Fairlead", NAME)
    objects.delete(VERSION, "Policy", "forbidden-label")
    assert "is forbidden" in marked(), "what was in force stays so"


def test_the_objects_of_a_folder_are_accepted(
    objects: clients.Objects, apply: Callable[[Object], str], tmp_path: Path
) -> None:
    command_line.fairlead("new", "policy", "some-label", "--folder", str(tmp_path))
    loaded = PolicySet.load(
        Settings.model_validate(
            {
                "policies": [str(tmp_path)],
                "intents": {"other-label": {"intent": "some-label"}},
                "enforcement": {"*": "warn", "other-label": "deny"},
            }
        )
    )
    for manifest in policy_objects.of_policy_set(loaded):
        stored = objects.apply(manifest, dry_run=True)
        assert stored["spec"] == manifest["spec"]
        last = apply(manifest)
    assert last == IN_FORCE

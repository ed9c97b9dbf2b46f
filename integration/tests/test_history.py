"""The history has an entry for each push, rollback and deployment, and says what differs between
two of them."""

from __future__ import annotations

import json
import re
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import command_line
import pytest
from policy_copies import copied

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import history_log, manifests
from fairlead.deployment.history_log import Entry
from fairlead.deployment.names import (
    HISTORY,
    NAMESPACE,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.kube import clients
from fairlead.operations import deploy, drift, history, history_diff
from fairlead.operations.push import push
from fairlead.operations.rollback import rollback
from fairlead.policy import bundles, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings

pytestmark = [
    pytest.mark.embedded("it deletes the history, and changes settings"),
]

QUIET = Progress()
Record = Callable[..., Entry]


@pytest.fixture(autouse=True)
def deployed(cluster: EmbeddedCluster, objects: clients.Objects) -> Iterator[None]:
    """The default policies and settings are in force, and the history has one entry."""
    restored(cluster, objects, "the first")
    yield
    restored(cluster, objects, None)


def restored(cluster: EmbeddedCluster, objects: clients.Objects, message: str | None) -> None:
    """Deploy, if that changes something, and let the history begin anew."""
    settings = Settings()
    default = manifests.config_map(staging.staged(PolicySet.load(settings), "opa", QUIET))
    live = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    as_default = history.settings_of(live) == history.settings_of(default)
    if not as_default or live["data"] != default["data"]:
        deploy.deploy(cluster, PolicySet.load(settings), progress=QUIET)
    emptied(objects)
    history.record(objects, default, "deploy", message)


def emptied(objects: clients.Objects) -> None:
    for config_map in objects.list("v1", "ConfigMap", NAMESPACE):
        name = config_map["metadata"]["name"]
        if name == HISTORY or name.startswith(f"{POLICIES}-"):
            objects.delete("v1", "ConfigMap", name, NAMESPACE)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """A copy of the policies to change."""
    return copied(tmp_path / "policies")


@pytest.fixture
def record(objects: clients.Objects) -> Record:
    """Records a change without bringing it into force: its policies are a number."""

    def recorded(number: int, action: str = "push", **settings: Any) -> Entry:
        modules = {"main.rego": f"package system\n\nmain := {number}\n"}
        annotations = {
            REVISION_ANNOTATION: bundles.revision(modules),
            SETTINGS_ANNOTATION: json.dumps(settings),
        }
        return history.record(objects, manifests.policies_of(modules, annotations), action)

    return recorded


def fairlead(cluster: EmbeddedCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command_line.fairlead(*arguments, "--name", cluster.name)


def changed(policies: Path, text: str) -> None:
    with (policies / "node_pool" / "node_pool.rego").open("a") as module:
        module.write(f"\n# {text}\n")


def listed(cluster: EmbeddedCluster) -> list[dict[str, Any]]:
    done = fairlead(cluster, "history", "-o", "json")
    assert done.returncode == 0, done.stderr
    entries: list[dict[str, Any]] = json.loads(done.stdout)
    return entries


def test_each_change_has_an_entry_and_a_push_that_changes_nothing_has_none(
    cluster: EmbeddedCluster, policies: Path
) -> None:
    same = fairlead(cluster, "push", "-m", "again", "-o", "json")
    assert json.loads(same.stdout)["entry"] is None
    assert "the history has no new entry" in same.stderr
    changed(policies, "another")
    pushed = fairlead(cluster, "push", "--policies", str(policies), "-m", "a comment", "-o", "json")
    assert json.loads(pushed.stdout)["entry"] == 2, pushed.stderr
    rolled = fairlead(cluster, "rollback", "-m", "no comment", "-o", "json")
    result = json.loads(rolled.stdout)
    assert (result["entry"], result["direction"], result["missing"]) == (3, "back", [])
    assert re.search(r"went back from entry 2 \(.*: a comment\) to entry 1 \(", rolled.stderr)
    forward = fairlead(cluster, "rollback", "-o", "json")
    assert json.loads(forward.stdout)["direction"] == "forward"
    assert "went forward from entry 3 (" in forward.stderr
    assert fairlead(cluster, "deploy", "-m", "the default").returncode == 0
    entries = listed(cluster)
    assert [(e["number"], e["action"], e["message"], e["changed"]) for e in entries] == [
        (5, "deploy", "the default", ["policies"]),
        (4, "rollback", None, ["policies"]),
        (3, "rollback", "no comment", ["policies"]),
        (2, "push", "a comment", ["policies"]),
        (1, "deploy", "the first", None),
    ]
    assert [e["current"] for e in entries] == [True, False, False, False, False]
    assert {e["revision"] for e in entries[::2]} == {entries[0]["revision"]}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", e["time"]) for e in entries)
    assert {e["by"] for e in entries} == {user(cluster)}
    assert all(e["settings"]["podSelector"] == "reject" for e in entries)
    table = fairlead(cluster, "history").stdout
    assert "no comment" in table


def user(cluster: EmbeddedCluster) -> str:
    """The API server's user, by another way than SelfSubjectReview: from the certificate."""
    import base64

    import yaml
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    credentials = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]
    if "client-certificate-data" in credentials:
        pem = base64.b64decode(credentials["client-certificate-data"])
    else:
        pem = (cluster.kubeconfig.parent / credentials["client-certificate"]).read_bytes()
    subject = x509.load_pem_x509_certificate(pem).subject
    (name,) = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def test_two_entries_are_compared_in_policies_and_settings(
    cluster: EmbeddedCluster, policies: Path
) -> None:
    changed(policies, "another line")
    push(cluster, PolicySet.load(Settings(contact="#platform"), policies), progress=QUIET)
    done = fairlead(cluster, "history", "--diff", "1", "2")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "--- node_pool.node_pool.rego" in lines
    assert "+# another line" in lines
    assert '-contact := ""' in lines
    assert ("-contact: null" in lines, "+contact: '#platform'" in lines) == (True, True)
    assert not any(re.search(r"\br_[0-9a-f]{12}\.", line) for line in lines), "names as written"
    result = history_diff.differences(cluster, "2", "1")
    assert result["settings"] == [{"setting": "contact", "from": "#platform", "to": None}]
    assert [policy["file"] for policy in result["policies"]] == [
        "node_pool.node_pool.rego",
        "settings.rego",
    ]
    assert "no difference" in fairlead(cluster, "history", "--diff", "1", "1").stdout
    revision = history.entries(cluster.objects())[0].revision
    assert fairlead(cluster, "history", "--diff", revision[: history.PREFIX], "2").returncode == 0
    for unknown in ("7", revision[: history.PREFIX - 1], ""):
        wrong = fairlead(cluster, "history", "--diff", "1", unknown)
        assert wrong.returncode == 2
        assert f"{unknown!r} is neither the number of an entry" in wrong.stderr


def test_settings_come_back_with_the_policies(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    push(
        cluster, PolicySet.load(Settings(contact="#platform", pod_selector="merge")), progress=QUIET
    )
    result = rollback(cluster, None, progress=QUIET)
    assert (result["direction"], result["missing"]) == ("back", [])
    live = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    restored = history.settings_of(live) or {}
    assert (restored["contact"], restored["podSelector"]) == (None, "reject")
    assert history.entries(objects)[0].settings == restored


def test_settings_that_only_a_deployment_applies_stay_and_are_named(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    more = Settings(contact="#platform", timeout_seconds=7)
    deploy.deploy(cluster, PolicySet.load(more), progress=QUIET)
    done = fairlead(cluster, "rollback", "1", "-o", "json")
    result = json.loads(done.stdout)
    assert result["missing"] == [{"setting": "timeoutSeconds", "now": 7, "then": 5}]
    assert "only a deployment can apply stay: timeoutSeconds is 7 now and was 5" in done.stderr
    assert "\n  timeoutSeconds: 5\n\n" in result["wayBack"]
    assert result["wayBack"] in done.stderr
    live = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    settings = history.settings_of(live) or {}
    assert (settings["contact"], settings["timeoutSeconds"]) == (None, 7)
    states = {entry.state for entry in drift.compare(cluster, objects).objects}
    assert states == {drift.AS_DEPLOYED}, "the settings are those of what runs"


def test_policies_that_need_other_settings_are_not_brought_back(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    deploy.deploy(
        cluster, PolicySet.load(Settings(default_pool="pool1", timeout_seconds=7)), progress=QUIET
    )
    before = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    with pytest.raises(UsageError) as refused:
        rollback(cluster, "1", progress=QUIET)
    assert 'defaultPool is "pool1" now and was null; timeoutSeconds is 7 now' in str(refused.value)
    after = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    assert after["data"] == before["data"]


def test_the_printed_lines_and_commands_bring_policies_and_settings_back(
    cluster: EmbeddedCluster, objects: clients.Objects, tmp_path: Path
) -> None:
    pools = {"pool1": Pool(), "pool2": Pool(node_selector={"disk": "ssd"})}
    deploy.deploy(cluster, PolicySet.load(Settings(pools=pools, timeout_seconds=7)), progress=QUIET)
    then = history.entries(objects)[0]
    deploy.deploy(cluster, PolicySet.load(Settings(contact="#platform")), progress=QUIET)
    refused = fairlead(cluster, "rollback", str(then.number))
    assert refused.returncode == 2
    _, lines, commands = refused.stderr.split("\n\n")
    file = tmp_path / "fairlead.yaml"
    file.write_text(f"contact: '#platform'\n{textwrap.dedent(lines)}\n")
    first, second = re.findall("`fairlead ([^`]*)`", commands)
    assert fairlead(cluster, *first.split(), "--settings", str(file)).returncode == 0
    done = fairlead(cluster, *second.split(), "-o", "json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["missing"], result["wayBack"]) == ([], None)
    live = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE) or {}
    assert history.settings_of(live) == then.settings
    assert bundles.revision(live["data"]) == then.revision


def test_the_policies_of_the_last_revisions_are_kept(
    cluster: EmbeddedCluster, objects: clients.Objects, record: Record
) -> None:
    for number in range(history.KEPT + 1):
        record(number)
    entries = history.entries(objects)
    assert len(entries) == history.KEPT + 2
    kept = [entry.number for entry in entries if entry.manifest]
    assert kept == [*range(history.KEPT + 2, 2, -1)]
    assert entries[0].modules == {"main.rego": f"package system\n\nmain := {history.KEPT}\n"}
    with pytest.raises(UsageError, match=r"the policies of entry 2 .* only those of the last 10"):
        rollback(cluster, "2", progress=QUIET)
    result = history_diff.differences(cluster, "2", "3")
    assert (result["policies"], result["settings"]) == (None, [])
    assert [sentence[:26] for sentence in result["missing"]] == ["the policies of entry 2 (r"]


def test_the_number_of_entries_is_bounded_and_repeated_deployments_go_first(
    objects: clients.Objects, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_log, "ENTRIES", 4)
    for number, action in ((1, "push"), (1, "deploy"), (2, "push"), (2, "deploy"), (2, "deploy")):
        record(number, action)
    # 3 and 5 are deployments that changed nothing
    assert [entry.number for entry in history.entries(objects)] == [6, 4, 2, 1]
    for number in (3, 4, 5):
        record(number)
    assert [entry.number for entry in history.entries(objects)] == [9, 8, 7, 4]


def test_the_size_of_all_entries_is_bounded(
    objects: clients.Objects, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_log, "LARGEST", 20_000)
    for number in range(5):
        record(number, pools={f"pool-{number}-{one}": {} for one in range(300)})
    entries = history.entries(objects)
    assert [entry.number for entry in entries] == [6, 5, 4]
    log = objects.get("v1", "ConfigMap", HISTORY, NAMESPACE) or {}
    assert sum(map(len, log["data"].values())) <= 20_000
    settings = [key for key in log["data"] if key.startswith("settings-")]
    assert len(settings) == 3, "those of earlier entries are gone"


def test_two_that_write_at_the_same_time_both_have_an_entry(
    cluster: EmbeddedCluster, record: Record
) -> None:
    record(0)

    def recorded(number: int) -> int | None:
        modules = {"main.rego": f"package system\n\nmain := {number}\n"}
        manifest = manifests.policies_of(modules, {REVISION_ANNOTATION: bundles.revision(modules)})
        return history.record(cluster.objects(), manifest, "push").number

    with ThreadPoolExecutor(2) as executor:
        numbers = list(executor.map(recorded, range(1, 5)))
    assert sorted(numbers, key=str) == [3, 4, 5, 6]
    assert [entry.number for entry in history.entries(cluster.objects())][:4] == [6, 5, 4, 3]


def test_what_somebody_broke_in_the_log_is_left_out(
    objects: clients.Objects, record: Record
) -> None:
    record(1)
    log = objects.get("v1", "ConfigMap", HISTORY, NAMESPACE)
    assert log
    whole = json.loads(log["data"]["entry-00000002"])
    broken = {
        "entry-00000007": "{",
        "entry-x": "{}",
        "entry-00000008": '{"other": 1}',
        "entry-00000009": json.dumps({**whole, "revision": None}),
        "entry-00000010": json.dumps({**whole, "restored": "1"}),
    }
    objects.merge(log, {"data": broken})
    assert [entry.number for entry in history.entries(objects)] == [2, 1]


@pytest.mark.parametrize("command", ["push", "rollback", "deploy"])
def test_a_message_is_one_line(cluster: EmbeddedCluster, command: str) -> None:
    for message in ("two\nlines", " ", "x" * 501):
        done = fairlead(cluster, command, "-m", message)
        assert done.returncode == 2
        assert "--message takes one line of 1 to 500 characters" in done.stderr

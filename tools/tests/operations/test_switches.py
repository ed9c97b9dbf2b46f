"""Intents are disabled with a reason, for a time or until somebody enables them; status and history
say who did it, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import click.testing
import pytest
from stored_objects import StoredObjects

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment import disabled_objects, history_log
from fairlead.deployment.disabled_intents import Disabled
from fairlead.deployment.disabled_objects import Record
from fairlead.deployment.history_log import Entry
from fairlead.keeper.switch_ends import SwitchEnds
from fairlead.kube.clients import Objects
from fairlead.operations import disable, history, problems

WHY = "OPA hangs, #4711"
ADMISSION = "admissionregistration.k8s.io/v1"
HOUR = timedelta(hours=1)


def webhooks(kind: str) -> dict[str, Any]:
    names = ("node-pool.fairlead.dev", "other.fairlead.dev")
    return {
        "apiVersion": ADMISSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "fairlead"},
        "webhooks": [{"name": name, "objectSelector": {}} for name in names],
    }


CONTROLLER = {"kind": "ClusterRoleBinding", "metadata": {"name": "fairlead-controller"}}
"""What a deployment has in which the controller keeps the time."""


@pytest.fixture
def objects() -> StoredObjects:
    return StoredObjects(webhooks("Mutating"), webhooks("Validating"), CONTROLLER)


@pytest.fixture
def cluster(objects: StoredObjects) -> Cluster:
    return cast(Cluster, SimpleNamespace(name="test", objects=lambda: objects))


def off(objects: StoredObjects) -> list[str]:
    """The webhooks that are off, each with the beginning of its configuration's kind."""
    return [
        f"{live['kind'][:3]} {webhook['name'].partition('.')[0]}"
        for kind in ("Mutating", "Validating")
        for live in objects.list(ADMISSION, f"{kind}WebhookConfiguration")
        for webhook in live["webhooks"]
        if disabled_objects.is_off(webhook["objectSelector"])
    ]


def move_end(objects: StoredObjects, end: datetime) -> None:
    """Have everything that is disabled for a time end then."""
    for kind in ("Mutating", "Validating"):
        for live in objects.list(ADMISSION, f"{kind}WebhookConfiguration"):
            for key, text in live["metadata"]["annotations"].items():
                moved = {**json.loads(text), "until": end.isoformat(timespec="seconds")}
                live["metadata"]["annotations"][key] = json.dumps(moved)
            objects.apply(live)


def rows(cluster: Cluster) -> list[tuple[Any, ...]]:
    return [(row["action"], row["by"], row["intents"]) for row in history.table(cluster)]


def look(objects: StoredObjects) -> None:
    SwitchEnds(cast(Objects, objects)).look()


def test_each_switch_is_in_the_history_with_its_reason(
    cluster: Cluster, objects: StoredObjects
) -> None:
    disable.disable(cluster, "node-pool", WHY, HOUR)
    objects.user = "bob"
    disable.enable(cluster, None)
    enabled, disabled = history.table(cluster)
    assert (disabled["action"], disabled["message"], disabled["by"]) == ("disable", WHY, "alice")
    assert disabled["until"] > disabled["time"]
    assert (enabled["action"], enabled["by"], enabled["until"]) == ("enable", "bob", None)
    assert enabled["intents"] == ["node-pool", "other"]
    assert f"by alice ({WHY})" in enabled["message"]
    assert (disabled["revision"], disabled["changed"], disabled["current"]) == (None, None, False)


def test_a_second_reason_takes_the_place_of_the_first_and_none_is_lost(
    cluster: Cluster, objects: StoredObjects
) -> None:
    first = disable.disable(cluster, "node-pool", WHY, HOUR)["disabled"][0]
    objects.user = "bob"
    result = disable.disable(cluster, "node-pool", "again, #4712")
    assert (result["changed"], result["updated"]) == ([], [first])
    assert result["disabled"] == [{**first, "reason": "again, #4712", "until": None}]
    second, earlier = history.table(cluster)
    assert (earlier["message"], earlier["by"]) == (WHY, "alice")
    assert second["message"].startswith("again, #4712; node-pool: it was disabled since ")
    assert (second["by"], WHY in second["message"]) == ("bob", True)
    again = disable.disable(cluster, "node-pool", "again, #4712")
    assert (again["changed"], again["updated"], len(rows(cluster))) == ([], [], 2)


def test_a_reason_that_somebody_wrote_by_hand_is_not_lost(
    cluster: Cluster, objects: StoredObjects
) -> None:
    for kind in ("Mutating", "Validating"):
        (live,) = objects.list(ADMISSION, f"{kind}WebhookConfiguration")
        live["metadata"]["annotations"] = {"disabled.fairlead.dev/node-pool": "by hand"}
        live["webhooks"][0]["objectSelector"] = disabled_objects.off({})
        objects.apply(live)
    disable.disable(cluster, "node-pool", WHY)
    assert "(by hand)" in history.table(cluster)[0]["message"]


@pytest.mark.parametrize("reason", ["", " ", "two\nlines", "x" * 501])
def test_a_reason_is_a_line_of_text(cluster: Cluster, reason: str) -> None:
    with pytest.raises(UsageError, match="one line of 1 to 500"):
        disable.disable(cluster, None, reason)


def test_what_is_over_is_enabled_once_whoever_looks(
    cluster: Cluster, objects: StoredObjects
) -> None:
    disable.disable(cluster, "node-pool", WHY, HOUR)
    disable.disable(cluster, "other", WHY)
    look(objects)
    assert len(off(objects)) == 4, "an hour has not passed"
    move_end_of = datetime.now(UTC) - timedelta(seconds=1)
    (live,) = objects.list(ADMISSION, "MutatingWebhookConfiguration")
    record = json.loads(live["metadata"]["annotations"]["disabled.fairlead.dev/node-pool"])
    past = json.dumps({**record, "until": move_end_of.isoformat(timespec="seconds")})
    for kind in ("Mutating", "Validating"):
        (live,) = objects.list(ADMISSION, f"{kind}WebhookConfiguration")
        live["metadata"]["annotations"]["disabled.fairlead.dev/node-pool"] = past
        objects.apply(live)
    look(objects)
    look(objects)
    assert off(objects) == ["Mut other", "Val other"]
    assert list(disable.read(cast(Objects, objects)).records) == ["other"]
    assert rows(cluster)[0] == ("enable", "fairlead (the time was over)", ["node-pool"])
    assert len(rows(cluster)) == 3
    assert WHY in history.table(cluster)[0]["message"]


def test_an_end_that_was_interrupted_is_finished_and_told_once(
    cluster: Cluster, objects: StoredObjects
) -> None:
    disable.disable(cluster, None, WHY, HOUR)
    move_end(objects, datetime.now(UTC) - HOUR)
    objects.forbidden = {"ValidatingWebhookConfiguration"}
    with pytest.raises(FairleadError):
        look(objects)
    assert off(objects) == ["Val node-pool", "Val other"], "what mutates is enabled first"
    objects.forbidden = set()
    look(objects)
    assert (off(objects), len(rows(cluster))) == ([], 2)


def test_a_history_that_cannot_be_written_delays_no_switch(
    cluster: Cluster, objects: StoredObjects
) -> None:
    objects.forbidden = {"ConfigMap"}
    result = disable.disable(cluster, None, WHY, HOUR)
    assert len(off(objects)) == 4
    (warning,) = result["warnings"]
    assert warning.startswith("`fairlead history` has no entry of this: ")
    move_end(objects, datetime.now(UTC) - HOUR)
    look(objects)
    assert off(objects) == []


def test_what_ends_it_adds_to_the_log_and_changes_nothing_else_of_it(
    cluster: Cluster, objects: StoredObjects
) -> None:
    disable.disable(cluster, None, WHY, HOUR)
    (log,) = objects.list("v1", "ConfigMap")
    log["data"]["entry-broken"] = "somebody wrote this"
    objects.apply(log)
    move_end(objects, datetime.now(UTC) - HOUR)
    look(objects)
    (after,) = objects.list("v1", "ConfigMap")
    assert {key: after["data"][key] for key in log["data"]} == log["data"]
    (added,) = after["data"].keys() - log["data"].keys()
    assert '"action": "enable"' in after["data"][added], "the guard asks for this text"


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ([], "run `fairlead deploy` with the engine opa or python"),
        ([CONTROLLER], None),
    ],
)
def test_a_time_needs_something_that_ends_it(
    present: list[dict[str, Any]], message: str | None
) -> None:
    objects = StoredObjects(webhooks("Mutating"), webhooks("Validating"), *present)
    cluster = cast(Cluster, SimpleNamespace(name="test", objects=lambda: objects))
    if message is None:
        disable.disable(cluster, None, WHY, HOUR)
        return
    with pytest.raises(FairleadError, match=message) as error:
        disable.disable(cluster, None, WHY, HOUR)
    assert "Nothing was changed: leave --for out" in str(error.value)
    assert off(objects) == []
    disable.disable(cluster, None, WHY)


def test_status_says_the_end_and_that_it_is_overdue() -> None:
    now = datetime.now(UTC)
    soon, past = ((now + delta).isoformat(timespec="seconds") for delta in (HOUR, -HOUR))
    running = Record("a", "alice", "2026-11-22T10:00:00Z", WHY, soon)
    (sentence,) = problems.of_disabled(Disabled({"a": running}, []))
    assert sentence.endswith(f"it decides nothing until {soon}, or `fairlead enable`")
    (sentence,) = problems.of_disabled(Disabled({"a": Record("a", until=past)}, []))
    assert f"It was to be enabled at {past}, and nothing has done so" in sentence


@pytest.mark.parametrize(
    ("until", "read"), [("tomorrow", None), ("2026-11-22T10:00:00", None), ("", None), (5, None)]
)
def test_an_end_that_is_no_time_counts_for_none(until: object, read: str | None) -> None:
    annotations = {"disabled.fairlead.dev/a": json.dumps({"by": "alice", "until": until})}
    live = {"kind": "MutatingWebhookConfiguration", "metadata": {"annotations": annotations}}
    assert disabled_objects.records(live) == {"a": Record("a", "alice", until=read)}


def test_switches_and_changes_do_not_crowd_out_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_log, "ENTRIES", 3)
    objects = StoredObjects()
    for number in range(10):
        switch = Entry(0, "disable", "", None, str(number), intents=("a",))
        change = Entry(0, "push", "", None, str(number), f"{number}", {"a": number})
        for entry in (switch, change):
            history_log.appended(cast(Objects, objects), entry)
    kept = history_log.read(cast(Objects, objects))
    assert [(entry.action, entry.message) for entry in kept] == [
        (action, str(number)) for number in (7, 8, 9) for action in ("disable", "push")
    ]
    changes = history.entries(cast(Objects, objects))
    assert [entry.action for entry in changes] == ["push"] * 3, "a rollback goes to none of these"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say why: fairlead disable --reason"),
        (("-m", WHY, "--for", "soon"), "--for: 'soon' is not a duration"),
    ],
)
def test_the_command_wants_a_reason_and_a_duration(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairlead.cli.operations.disable import command
    from fairlead.clusters import registry

    monkeypatch.setattr(registry, "find", lambda _: None)
    result = click.testing.CliRunner().invoke(command, list(arguments))
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)

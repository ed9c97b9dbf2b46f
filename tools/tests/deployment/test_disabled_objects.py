"""Which webhooks belong to an intent, and how they are switched off and on."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import render

from fairlead.deployment import disabled_objects
from fairlead.deployment.disabled_objects import Record

ALL: dict[str, Any] = {"pools": {"a": {}}}  # with it, there is every webhook


@pytest.mark.parametrize(
    ("webhook", "intent"),
    [
        ("host-network.fairlead.dev", "host-network"),
        ("daemonsets.host-network.fairlead.dev", "host-network"),
        ("node-pool.fairlead.dev", "node-pool"),
        ("daemonsets.node-pool.fairlead.dev", "node-pool"),
        ("final-state.fairlead.dev", "node-pool"),
    ],
)
def test_the_name_of_a_webhook_says_its_intent(webhook: str, intent: str) -> None:
    assert disabled_objects.intent_of(webhook) == intent


def test_every_webhook_of_a_deployment_belongs_to_an_intent() -> None:
    for chosen in (None, ALL):
        rendered = render(chosen)
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            assert {each.intent for each in disabled_objects.switches(rendered[kind])} == {
                "node-pool"
            }


@pytest.mark.parametrize(
    "selector",
    [
        {},
        {"matchLabels": {"a": "b"}},
        {"matchExpressions": [{"key": "a", "operator": "Exists"}], "matchLabels": {"c": "d"}},
    ],
)
def test_a_selector_that_was_off_is_on_as_before(selector: dict[str, Any]) -> None:
    off = disabled_objects.off(selector)
    assert (disabled_objects.is_off(off), disabled_objects.is_off(selector)) == (True, False)
    assert disabled_objects.off(off) == off
    assert disabled_objects.on(off) == selector
    half = {"matchExpressions": [{"key": disabled_objects.MARK, "operator": "Exists"}]}
    assert not disabled_objects.is_off(half)


def configuration(*names: str, off: tuple[str, ...] = (), **annotations: str) -> dict[str, Any]:
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "annotations": {
                f"disabled.fairlead.dev/{intent.replace('_', '-')}": text
                for intent, text in annotations.items()
            }
        },
        "webhooks": [
            {
                "name": f"{name}.fairlead.dev",
                **({"objectSelector": disabled_objects.off({})} if name in off else {}),
            }
            for name in names
        ],
    }


def test_what_is_off_stays_off_with_the_new_webhooks_of_its_intent_and_no_others() -> None:
    live = configuration("a", "b", off=("a",), a='{"by": "alice"}')
    manifest = configuration("a", "more.a", "b")
    webhooks = disabled_objects.kept(manifest, live)["webhooks"]
    assert [disabled_objects.is_off(webhook.get("objectSelector")) for webhook in webhooks] == [
        True,
        True,
        False,
    ]
    assert disabled_objects.kept(manifest, configuration("a", "b")) is manifest
    assert disabled_objects.kept(manifest, None) is manifest


def test_a_binding_that_is_off_stays_off() -> None:
    binding: dict[str, Any] = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "fairlead.a", "labels": {"fairlead.dev/intent": "a"}},
        "spec": {"policyName": "a"},
    }
    live = disabled_objects.binding_off(binding)
    assert disabled_objects.kept(binding, live) == live
    assert disabled_objects.kept(binding, binding) is binding
    assert "matchResources" not in binding["spec"], "it was not changed in place"
    (switch,) = disabled_objects.switches(live)
    assert (switch.intent, switch.is_off) == ("a", True)
    assert switch.turned_on == {"op": "remove", "path": "/spec/matchResources"}


@pytest.mark.parametrize(
    ("text", "record"),
    [
        (
            '{"by": "alice", "since": "2026-11-22T10:00:00Z", "reason": "OPA hangs"}',
            Record("a", "alice", "2026-11-22T10:00:00Z", "OPA hangs"),
        ),
        ('{"by": null, "reason": 5}', Record("a", reason="5")),
        ("OPA hangs", Record("a", reason="OPA hangs")),
        ("4711", Record("a", reason="4711")),
        ("[1]", Record("a", reason="[1]")),
        ("", Record("a")),
    ],
)
def test_a_record_may_be_written_by_hand(text: str, record: Record) -> None:
    assert disabled_objects.records(configuration("a", a=text)) == {"a": record}


def test_a_record_is_read_as_it_was_written() -> None:
    record = Record("a", "alice", "2026-11-22T10:00:00Z", 'a "quoted" reason')
    assert disabled_objects.records(configuration("a", a=record.annotation)) == {"a": record}


def test_what_somebody_recorded_counts_more_than_what_nobody_did() -> None:
    unrecorded = configuration("a", "b", off=("a", "b"))
    recorded = configuration("a", off=("a",), a="why")
    expected = {"a": Record("a", reason="why"), "b": Record("b")}
    assert disabled_objects.merged([unrecorded, recorded]) == expected
    assert disabled_objects.merged([recorded, unrecorded]) == expected


def test_a_sentence_says_what_is_known() -> None:
    assert disabled_objects.Record("a").sentence.startswith("a was disabled by somebody unknown: ")
    full = Record("a", "alice", "2026-11-22T10:00:00Z", "why")
    assert full.sentence.startswith(
        "a was disabled at 2026-11-22T10:00:00Z by alice (why): it decides nothing until "
    )

"""Objects are compared field by field, and what a user reads of it."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.console import Console

from fairlead.cli.operations import outcomes
from fairlead.operations import object_comparison
from fairlead.operations.applying import CHANGED, CREATED, UNCHANGED, UNKNOWN, Outcome
from fairlead.operations.object_comparison import FieldChange

REVISIONS = "0123456789ab", "ba9876543210"


def made(kind: str = "Deployment", name: str = "opa", **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **content}


def between(old: dict[str, Any], new: dict[str, Any]) -> list[FieldChange]:
    return list(object_comparison.between(new, old, new))


def test_fields_are_named_by_their_path_and_items_by_their_name() -> None:
    old = made(spec={"replicas": 1, "containers": [{"name": "a", "args": ["-x"]}, {"name": "b"}]})
    new = made(spec={"replicas": 2, "containers": [{"name": "a", "args": ["-y"]}, {"name": "c"}]})
    assert between(old, new) == [
        FieldChange("spec.containers[a].args[0]", "-x", "-y"),
        FieldChange("spec.containers[b]", {"name": "b"}, None),
        FieldChange("spec.containers[c]", None, {"name": "c"}),
        FieldChange("spec.replicas", 1, 2),
    ]


def test_labels_that_others_add_are_no_change_and_those_that_go_are() -> None:
    manifest = made()
    manifest["metadata"]["labels"] = {"ours": "new"}
    before, after = (made() for _ in range(2))
    before["metadata"] |= {"labels": {"ours": "old", "dropped": "x"}, "resourceVersion": "1"}
    after["metadata"] |= {"labels": {"ours": "new", "theirs": "y"}, "resourceVersion": "2"}
    assert object_comparison.between(manifest, before, after) == (
        FieldChange("metadata.labels.dropped", "x", None),
        FieldChange("metadata.labels.ours", "old", "new"),
    )


def test_json_in_an_annotation_is_compared_as_such() -> None:
    old, new = (made() for _ in range(2))
    for side, replicas in ((old, 1), (new, 2)):
        text = json.dumps({"contact": "me", "replicas": replicas})
        side["metadata"]["annotations"] = {"fairlead.dev/settings": text}
    assert between(old, new) == [
        FieldChange("metadata.annotations[fairlead.dev/settings].replicas", 1, 2)
    ]


def test_the_name_of_a_revision_is_no_difference_of_a_module() -> None:
    old, new = (
        made(
            "ConfigMap",
            "fairlead-policies",
            data={
                f"{revision}.a.rego": f"package r_{revision}.a\n",
                f"{revision}.b.rego": f"package r_{revision}.b\nx := {number}\n",
                "main.rego": f"import data.r_{revision}.a\n",
            },
        )
        for number, revision in enumerate(REVISIONS)
    )
    assert [change.path for change in between(old, new)] == ["data[b.rego]"]


def test_a_secret_shows_which_keys_change_and_no_value() -> None:
    (change,) = between(
        made("Secret", data={"token": "b2xk"}), made("Secret", data={"token": "bmV3"})
    )
    assert change == FieldChange("data.token", hidden=True)
    assert change.document() == {"path": "data.token"}
    assert "b2xk" not in repr(change)


def test_without_an_api_server_only_what_a_manifest_says_counts() -> None:
    manifest = made(spec={"replicas": 1})
    live = made(spec={"replicas": 1, "paused": True, "revisionHistoryLimit": 10})
    assert object_comparison.from_manifest(manifest, live, exactly=False) == ()
    assert [
        change.path for change in object_comparison.from_manifest(manifest, live, exactly=True)
    ] == ["spec.paused", "spec.revisionHistoryLimit"]


def test_a_plan_is_read_like_the_output_of_kubectl() -> None:
    long = "x" * 100
    plan = [
        Outcome("v1", "Namespace", "fairlead", None, UNCHANGED, note="no right to patch"),
        Outcome("v1", "Service", "opa", "fairlead", CREATED),
        Outcome("v1", "Secret", "opa-tls", "fairlead", UNKNOWN, note="no right to read it"),
        Outcome(
            "apps/v1",
            "Deployment",
            "opa",
            "fairlead",
            CHANGED,
            (
                FieldChange("a", 1, 2),
                FieldChange("b", None, long),
                FieldChange("c", f"{long} old", f"{long} new"),
                FieldChange("d", "1\n2\n3\n", "1\n2\n4\n5\n"),
                FieldChange("e", ["-v", "-x"], ["-v", "-y", "-z"]),
                FieldChange("f", hidden=True),
                FieldChange("g", True, None),
            ),
        ),
    ]
    text = io.StringIO()
    outcomes.draw_plan(plan, Console(file=text, width=200, highlight=False, markup=False))
    assert text.getvalue().splitlines() == [
        "service/opa created",
        "secret/opa-tls unknown",
        "    no right to read it",
        "deployment/opa changed",
        "    a: 1 -> 2",
        f"    b: added {'x' * 57}...",
        "    c: ...xxxx old -> ...xxxx new",
        "    d: 2 lines added, 1 removed",
        "    e: removed -x, added -y, added -z",
        "    f: changed (the values of a Secret are not shown)",
        "    g: removed true",
        "objects: 1 to create, 1 to change, 1 to leave as they are, 1 that cannot be read",
        "1 of them could not be compared by a dry run, so that defaults may count as changes: "
        "no right to patch",
    ]

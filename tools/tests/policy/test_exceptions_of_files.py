"""Exceptions of files: what they say, what is wrong with them, and what the gate makes of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import command_line
import pytest
import yaml

from fairlead.common.errors import UsageError
from fairlead.kube.own_kinds import VERSION
from fairlead.policy import exceptions
from fairlead.policy.exceptions import PolicyException

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "payments", "labels": {"agentpool": "pool1"}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-1", "namespace": "payments"},
    "spec": {"nodeSelector": {"a": "b"}, "containers": [{"name": "c", "image": "i"}]},
}


def exception(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": VERSION,
        "kind": "PolicyException",
        "metadata": {"name": "import", "namespace": "payments"},
        "spec": {
            "intents": ["node-pool"],
            "objects": {"names": ["web-*", "db"], "resources": ["pods"]},
            "reason": "a reason",
            "owner": "a team",
            "until": "2090-01-01T00:00:00Z",
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("name", "resource", "intent", "namespace", "is_excepted"),
    [
        ("db", "pods", "node-pool", "payments", True),
        ("web-", "pods", "node-pool", "payments", True),
        ("web-*", "pods", "node-pool", "payments", True),
        ("web", "pods", "node-pool", "payments", False),
        ("db-1", "pods", "node-pool", "payments", False),
        ("db", "deployments", "node-pool", "payments", False),
        ("db", "pods", "run-as-user", "payments", False),
        ("db", "pods", "node-pool", "shop", False),
    ],
)
def test_what_is_excepted(
    name: str, resource: str, intent: str, namespace: str, *, is_excepted: bool
) -> None:
    read = PolicyException.read(exception())
    of = {"namespace": namespace, "resource": resource, "name": name}
    assert read.excepts(intent, **of) is is_excepted


def test_an_exception_ends_at_its_end() -> None:
    read = PolicyException.read(exception(until="2026-11-29T12:00:00Z"))
    assert not read.has_ended(datetime(2026, 11, 29, 11, 59, 59, 999_999, tzinfo=UTC))
    assert read.has_ended(datetime(2026, 11, 29, 12, tzinfo=UTC))


def test_opa_gets_what_it_decides_by_and_nothing_else() -> None:
    read = PolicyException.read(exception())
    assert exceptions.tree([read]) == {
        "payments": {
            "import": {
                "metadata": {"namespace": "payments", "name": "import"},
                "spec": {
                    "intents": ["node-pool"],
                    "objects": {"names": ["web-*", "db"], "resources": ["pods"]},
                    "until": "2090-01-01T00:00:00Z",
                },
            }
        }
    }
    assert PolicyException.read(read.manifest()) == read


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"until": "2026-02-30T00:00:00Z"}, "until"),
        ({"until": "2026-12-24T18:00:00+01:00"}, "until"),
        ({"objects": {"names": ["a*b"]}}, r"objects\.names\[0\]"),
        ({"objects": {}}, r"objects\.names"),
        ({"owner": "a\nb"}, "owner"),
        ({"untill": "x"}, "untill"),
    ],
)
def test_mistakes_are_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=rf"PolicyException payments/import: spec: .*{message}"):
        PolicyException.read(exception(**spec))


def gate(folder: Path, *manifests: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(manifests))
    shown = command_line.fairlead("eval", str(folder), "--fail-on", "refused", "-o", "json")
    return shown.returncode, json.loads(shown.stdout)


def test_the_gate_takes_exceptions_of_files(tmp_path: Path) -> None:
    code, report = gate(tmp_path, NAMESPACE, POD)
    assert code == 1
    assert report["counts"]["refused"] == 1
    code, report = gate(tmp_path, NAMESPACE, POD, exception())
    assert (code, report["counts"]["refused"]) == (0, 0)
    code, report = gate(tmp_path, NAMESPACE, POD, exception(until="2026-01-01T00:00:00Z"))
    assert code == 1
    elsewhere = exception()
    elsewhere["metadata"]["namespace"] = "shop"
    assert gate(tmp_path, NAMESPACE, POD, elsewhere)[0] == 1


def test_the_gate_names_an_exception_that_no_api_server_stores(tmp_path: Path) -> None:
    code, report = gate(tmp_path, NAMESPACE, POD, exception(until="soon"))
    assert code == 2
    (entry,) = report["unreadable"]
    assert "PolicyException payments/import: spec: until" in json.dumps(entry)
    assert report["counts"]["refused"] == 1


def test_eval_says_which_exception_it_is(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([POD, NAMESPACE, exception()]))
    shown = command_line.fairlead("eval", str(file), "-o", "json")
    first, *_ = json.loads(shown.stdout)
    assert first["allowed"]
    assert any("exception payments/import" in sentence for sentence in first["explanation"])

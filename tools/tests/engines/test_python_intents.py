"""Intents in Python: how they are found, which of them decide, and how their decisions are merged,
with a user's own policies."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead.common import paths
from fairlead.common.errors import InputError
from fairlead.engines.python import decisions
from fairlead.engines.python.api import as_json, get, pointer, quoted
from fairlead.engines.python.decisions import Policies
from fairlead.kube import admission_reviews
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.python_code import MissingError

REGO = """\
# METADATA
# title: Replicas
package replicas

decision := {"deny": set(), "patch": [], "warn": set()}
"""
FACTS = """\
requests:
  - kinds: [apps/v1/Deployment]
    operations: [CREATE]
parameters:
  properties:
    least: {type: integer, default: 2}
"""
HEAD = "from fairlead.engines.python.api import Decision, Request, add\n\n\n"


def example() -> str:
    """The policy in docs/serve.md."""
    text = (paths.root() / "docs" / "serve.md").read_text()
    match = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1]


def policies(folder: Path, python: str | None, settings: str = "") -> Policies:
    """The policies in force: the user's `replicas` alone, written so in Python."""
    place = folder / "policies" / "replicas"
    (place / "engines").mkdir(parents=True)
    (place / "replicas.rego").write_text(REGO)
    (place / "intent.yaml").write_text(FACTS)
    if python is not None:
        (place / "engines" / "python.py").write_text(python)
    path = folder / "fairlead.yaml"
    path.write_text(f"policies: [policies]\n{settings or 'intents: {node-pool: false}'}\n")
    return decisions.of_policies(PolicySet.load(fairlead_yaml.load(path)))


def review(namespace: str = "payments", user: str = "eve", **spec: Any) -> dict[str, Any]:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    return admission_reviews.build(manifest, namespace=namespace, user={"username": user})


def test_the_policy_of_the_docs_decides(tmp_path: Path) -> None:
    ours = policies(tmp_path, example())
    assert ours.answer(review(replicas=2), {})["response"]["allowed"] is True
    response = ours.answer(review(), {})["response"]
    assert response["allowed"] is False
    message = 'Deployment "web": 1 replicas are too few: set more'
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": message}
    assert response["auditAnnotations"]["replicas"] == f"refused: {message}"


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        ("import nowhere_to_be_found\n", r"python\.py:1: ModuleNotFoundError"),
        ("x = 1\ndef decide(:\n", r"python\.py:2: SyntaxError"),
        ("x = 1\ny = 1 / 0\n", r"python\.py:2: ZeroDivisionError: division by zero"),
        ("decide = 7\n", r"has no function decide\(request, parameters, settings\)"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, python: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        policies(tmp_path, python)


def test_a_policy_in_force_that_is_not_in_python_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"the intent replicas is not written in Python: write"):
        policies(tmp_path, None)


INSTANCES = """\
enforcement: {replicas: warn}
intents:
  node-pool: false
  replicas: {exempt: {users: [alice], namespaces: [free]}}
  large: {intent: replicas, parameters: {least: 5}, namespaces: {matchLabels: {env: prod}}}
"""


@pytest.mark.parametrize(
    ("asked", "labels", "allowed", "warnings"),
    [
        (review(replicas=5), {"env": "prod"}, True, 0),
        (review(replicas=4), {"env": "prod"}, False, 0),
        (review(replicas=4), {"env": "test"}, True, 0),
        (review(replicas=1), {"env": "test"}, True, 1),
        (review(replicas=1, user="alice"), {"env": "test"}, True, 0),
        (review(replicas=1, namespace="free"), {"env": "test"}, True, 0),
        (review(replicas=5), None, False, 0),
        (review(replicas=1, namespace="free"), {}, True, 0),
    ],
)
def test_each_instance_decides_where_it_applies(
    tmp_path: Path,
    asked: dict[str, Any],
    labels: dict[str, str] | None,
    allowed: bool,
    warnings: int,
) -> None:
    response = policies(tmp_path, example(), INSTANCES).answer(asked, labels)["response"]
    assert response["allowed"] is allowed
    assert len(response.get("warnings", ())) == warnings
    if labels is None:
        message = 'namespace "payments" is not known to the policy yet: retry in a moment'
        assert response["status"]["message"] == message


def test_labels_that_contradict_the_question_are_doubted(tmp_path: Path) -> None:
    ours = policies(tmp_path, example(), INSTANCES)
    assert ours.doubts(review(), None, ["large"])
    assert ours.doubts(review(), {"env": "test"}, ["large"])
    assert not ours.doubts(review(), {"env": "prod"}, ["large"])
    assert not ours.doubts(review(), None, ["nothing"])


def test_a_refusal_changes_nothing_and_long_messages_are_cut(tmp_path: Path) -> None:
    python = HEAD + (
        "def decide(request: Request, parameters: object, settings: object) -> Decision:\n"
        '    deny = frozenset({"x" * 5000} if request.object["spec"].get("bad") else ())\n'
        '    return Decision(deny=deny, patch=(add(("spec", "a/b"), 1),), audit="changed")\n'
    )
    ours = policies(tmp_path, python)
    response = ours.answer(review(bad=True), {})["response"]
    assert "patch" not in response
    assert response["status"]["message"] == "x" * 4096 + "..."
    response = ours.answer(review(), {})["response"]
    assert json.loads(base64.b64decode(response["patch"])) == [
        {"op": "add", "path": "/spec/a~1b", "value": 1}
    ]
    assert response["auditAnnotations"]["replicas"] == "changed"


def test_texts_are_written_as_rego_writes_them() -> None:
    assert quoted('a"b\\\n\x00\x80é\u200b\U000e0001') == (
        '"a\\"b\\\\\\n\\x00\\u0080é\\u200b\\U000e0001"'
    )
    assert as_json({"b": "<&>\u2028é", "a": [1]}) == '{"a":[1],"b":"\\u003c\\u0026\\u003e\\u2028é"}'
    assert pointer(("a", "b/c", "~")) == "/a/b~1c/~0"
    assert get({"a": {"b": None}}, "a", "b", default=7) == 7
    assert get({"a": [1]}, "a", "b") is None

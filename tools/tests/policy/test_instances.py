"""Instances of intents: their requests, parameters and exemptions, in OPA and in the webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead.admission import evaluate
from fairlead.admission.evaluate import Question
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.deployment import webhooks
from fairlead.kube import admission_reviews
from fairlead.policy import fairlead_yaml
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

TWO = """
intents:
  node-pool: false
  small: {intent: replica-limits, namespaces: {matchLabels: {size: small}}, parameters: {ranges: [{max_replicas: 2}]}}
  big:
    intent: replica-limits
    namespaces: {matchLabels: {size: big}}
    parameters: {ranges: [{min_replicas: 20}]}
    exempt: {users: [alice], groups: [ops], namespaces: [db]}
enforcement: {small: warn}
"""  # noqa: E501


def load(folder: Path, text: str) -> Settings:
    path = folder / "fairlead.yaml"
    path.write_text(text)
    return fairlead_yaml.load(path)


def decide(
    settings: Settings,
    *,
    size: str,
    replicas: int,
    namespace: str = "shop",
    user: dict[str, Any] | None = None,
) -> evaluate.Answer:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas},
    }
    review = admission_reviews.build(manifest, namespace=namespace, user=user)
    known = {namespace: {"metadata": {"name": namespace, "labels": {"size": size}}}}
    return evaluate.ask([Question(review, settings, known)], PolicySet.load(settings), Progress())[
        0
    ]


def test_each_instance_decides_with_its_parameters_on_its_namespaces(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO)
    assert decide(settings, size="big", replicas=20).allowed
    assert "is not within 20 or more" in decide(settings, size="big", replicas=2).message
    assert decide(settings, size="small", replicas=2).warnings == ()
    (warning,) = decide(settings, size="small", replicas=20).warnings
    assert "is not within 0..2" in warning
    assert decide(settings, size="other", replicas=7).allowed


def test_questions_with_different_instances_are_decided_together(tmp_path: Path) -> None:
    first, second = load(tmp_path, TWO), Settings()
    review = admission_reviews.build(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}},
        namespace="shop",
    )
    known = {"shop": {"metadata": {"name": "shop", "labels": {"agentpool": "pool1"}}}}
    questions = [Question(review, settings, known) for settings in (first, second, first)]
    answers = evaluate.ask(questions, PolicySet.load(first), Progress())
    patches = [bool(answer.patch) for answer in answers]
    assert patches == [False, True, False]


@pytest.mark.parametrize(
    "exempt",
    [
        {"user": {"username": "alice"}},
        {"user": {"username": "bob", "groups": ["dev", "ops"]}},
        {"namespace": "db"},
    ],
)
def test_an_instance_leaves_those_alone_that_are_exempt(
    tmp_path: Path, exempt: dict[str, Any]
) -> None:
    settings = load(tmp_path, TWO)
    assert decide(settings, size="big", replicas=2, **exempt).allowed
    bob = {"username": "bob", "groups": ["dev"]}
    assert not decide(settings, size="big", replicas=2, user=bob).allowed


def test_webhooks_are_those_of_the_instances(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO)
    asked = webhooks.of(PolicySet.load(settings).active, settings).validating
    assert {each.name for each in asked} == {"big", "scale.big", "small", "scale.small"}
    big = next(each for each in asked if each.name == "big")
    assert big.namespaces[1:] == [
        {"key": "size", "operator": "In", "values": ["big"]},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["db"]},
    ]
    assert [condition.expression for condition in big.conditions[-2:]] == [
        '!(request.userInfo.username in ["alice"])',
        '!request.userInfo.?groups.orValue([]).exists(group, group in ["ops"])',
    ]


def test_an_intent_that_is_off_by_default_is_in_force_if_it_is_named(tmp_path: Path) -> None:
    def names(text: str) -> list[str]:
        settings = load(tmp_path, text)
        return [one.name for one in PolicySet.load(settings).active]

    chosen = "{parameters: {ranges: [{min_replicas: 3}]}}"
    assert names("{}") == ["node-pool"]
    assert names(f"intents: {{replica-limits: {chosen}}}") == ["node-pool", "replica-limits"]
    assert names("intents: {replica-limits: false}") == ["node-pool"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("  x: true", 2, "there is no intent 'x'"),
        ("  x: {intent: z}", 2, "intents.x.intent: there is no intent 'z'"),
        ("  replica-limits: {}", 2, "'ranges' is a required property"),
        ("  replica-limits: {parameters: {ranges: []}}", 2, "parameters.ranges: []"),
        (
            "  replica-limits:\n    parameters:\n      ranges:\n        - {min_replicas: 1.5}",
            5,
            "intents.replica-limits.parameters.ranges[0].min_replicas: 1.5 is not of type",
        ),
        ("  x: {intent: node-pool}", 2, "there is only one instance of it"),
        ("  node-pool: {namespaces: {matchLabels: {a: b}}}", 2, "use exempt.namespaces"),
        ("  node-pool: {intent: replica-limits}", 2, "is an intent of its own"),
        ("  workloads: {intent: node-pool}", 2, "is the name of something of Fairlead's own"),
        ("  namespaces: {intent: node-pool}", 2, "is the name of something of Fairlead's own"),
        ("  node-pool: {exempt: {users: ['']}}", 2, "exempt.users"),
    ],
)
def test_mistakes_are_named_with_their_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(InputError) as raised:
        load(tmp_path, f"intents:\n{text}\n")
    assert message in str(raised.value)
    assert f"fairlead.yaml:{line}:" in str(raised.value)

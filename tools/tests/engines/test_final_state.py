"""Admission policies check the final state as OPA would, which placed the object."""

from __future__ import annotations

import pytest

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.final_states import FinalState
from fairlead.deployment.names import FINAL_STATE_ANNOTATION
from fairlead.engines.cel import final_state, inlining
from fairlead.engines.cel.final_state import Check
from fairlead.policy import bundles, cases
from fairlead.policy.cases import Case
from fairlead.settings.models import Settings
from lab.fuzz.final_states import UNDONE, Judge

QUIET = Progress()
POLICY = "fairlead-node-pool-final-state"
CHECKED = ("node-pool", "sidecar-injection")
"""The intents whose final state is checked, with some settings at least."""


def checks(settings: Settings) -> list[Check]:
    return Judge(QUIET).checks(settings)


def reasons(settings: Settings) -> dict[str, str]:
    return final_state.render(bundles.bundle(settings).active(settings), settings)[1]


def checked_cases(judge: Judge) -> list[Case]:
    """The cases about pods whose final state policies check."""
    return [
        case
        for case in cases.load(None)
        if case.intent in CHECKED
        and case.request.manifest["kind"] == "Pod"
        and not case.request.sub_resource
        and case.request.operation != "DELETE"
        and case.intent in {check.intent for check in judge.checks(case.settings)}
    ]


def test_the_policies_judge_every_final_state_as_opa_does() -> None:
    """With API servers' own code, and with OPA's words: what lacks its patch is refused, too."""
    judge = Judge(QUIET)
    every = checked_cases(judge)
    assert len(every) > 100
    left = judge.left_by_opa(every)
    judged = judge.judged([*every, *left.values()])
    assert [f"{each.case.name}: {each.wrong}" for each in judged if each.wrong] == []
    messages = [(each.expected, getattr(each.outcome, "message", "")) for each in judged]
    assert [pair for pair in messages if not pair[1].startswith(pair[0])] == []
    # OPA leaves what it has changed as it is.
    assert all(each.expected == "" for each in judged[len(every) :])
    assert {each.case.name for each in judged if each.expected == UNDONE} == left.keys()
    assert len(judged) > 150


def test_where_nothing_may_be_refused_the_webhook_stays() -> None:
    """What the policy refuses would be more than what OPA refuses by these settings."""
    for settings, word in (
        (Settings(enforcement={"node-pool": "warn"}), "`warn`"),
        (Settings(failure_policy="Ignore"), "`Ignore`"),
    ):
        assert checks(settings) == []
        assert word in reasons(settings)["node-pool"]


def test_an_intent_without_cel_keeps_its_webhook_beside_others_with_policies() -> None:
    settings = Settings.model_validate(
        {"placement": True, "intents": {"federated-placement": True}, "finalState": "policy"}
    )
    assert {check.intent for check in checks(settings)} == {"node-pool"}
    assert "has no engines/cel.yaml" in reasons(settings)["federated-placement"]
    names = webhooks_of(settings, in_place=True)
    assert [name for name in names if name.startswith("final-state.")] == [
        name
        for name in webhooks_of(settings, in_place=False)
        if name.startswith("final-state.") and "federated-placement" in name
    ]


def webhooks_of(settings: Settings, *, in_place: bool) -> list[str]:
    """The validating webhooks of a deployment with the policies, after which these come."""
    objects = [each for check in checks(settings) for each in (check.policy, check.binding)]
    recorded = FinalState(manifests.to_yaml(objects), in_place)
    rendered = manifests.render_objects(
        settings, bundles.bundle(settings), Credentials.fresh(), final_state=recorded
    )
    kinds = [(each["kind"], each["metadata"]["name"]) for each in rendered]
    at = kinds.index(("ValidatingWebhookConfiguration", "fairlead"))
    assert (("ValidatingAdmissionPolicy", POLICY) in kinds[:at]) == in_place
    return [webhook["name"] for webhook in rendered[at]["webhooks"]]


def test_a_deployment_has_either_the_policy_or_the_webhook() -> None:
    webhook = "final-state.node-pool.fairlead.dev"
    assert webhook in webhooks_of(Settings(), in_place=False)
    assert webhook not in webhooks_of(Settings(), in_place=True)


def test_a_record_that_somebody_damaged_is_no_record() -> None:
    annotations = FinalState("a: 1\n", in_place=True).annotations
    config_map = {"metadata": {"annotations": annotations}}
    assert FinalState.of(config_map) == FinalState("a: 1\n", in_place=True)
    annotations[FINAL_STATE_ANNOTATION] = annotations[FINAL_STATE_ANNOTATION][:-8]
    with pytest.raises(FairleadError, match="run `fairlead deploy`"):
        FinalState.of(config_map)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("params.settings", "P.settings"),
        ("size(params) > 0 ? params : {}", "size(P) > 0 ? P : {}"),
        ("'params' + \"params\" + params.a", "'params' + \"params\" + P.a"),
        (r"'it\'s params' + params.a", r"'it\'s params' + P.a"),
        (r"r'\' + params.a + R\"\\\"", r"r'\' + P.a + R\"\\\""),
        ("'''params\n' params''' + params.a", "'''params\n' params''' + P.a"),
        (
            "object.params + object.?params.orValue(params.a)",
            "object.params + object.?params.orValue(P.a)",
        ),
        ("myparams + params_of + params.a // params", "myparams + params_of + P.a // params"),
    ],
)
def test_only_the_parameters_are_read_from_the_variable(expression: str, expected: str) -> None:
    spec = {"variables": [{"name": "v", "expression": expression}], "validations": []}
    inlined = inlining.inlined(spec, "{}")
    assert [each["name"] for each in inlined["variables"]] == ["fairlead_parameters", "v"]
    assert inlined["variables"][1]["expression"] == expected.replace(
        "P", "variables.fairlead_parameters"
    )

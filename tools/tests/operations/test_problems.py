"""The problems that `fairlead status` reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fairlead.clusters.base import OpaServer
from fairlead.common import texts
from fairlead.operations import problems
from fairlead.operations.deployed_state import Served
from fairlead.operations.drift import (
    AS_DEPLOYED,
    DIFFERS,
    DISABLED,
    MISSING,
    UNKNOWN,
    Compared,
    Comparison,
)
from fairlead.operations.replication_lag import Lag
from fairlead.pki.certificates import CA

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
GOOD = Served(OpaServer("https://127.0.0.1:1", Path("ca"), pod="opa-0"), True, "r1", NOON, 40.0)
OTHER = replace(GOOD, opa=replace(GOOD.opa, pod="opa-1"))
HEALTHY = {"pod": "opa-0", "healthy": True, "reasons": []}
SINCE = "its data were last confirmed at 2026-11-21T12:00:00Z, 40 s ago"


def test_nothing_is_said_where_all_is_well() -> None:
    assert list(problems.of_opas([GOOD, OTHER], 2)) == []
    assert list(problems.of_sidecars([GOOD], [HEALTHY])) == []
    assert list(problems.of_policies([{"name": "a", "status": "ok", "error": None}])) == []
    assert list(problems.of_policies([], [{"name": "a", "status": "ok", "error": None}])) == []
    assert list(problems.of_servers([{"name": "a", "running": True}])) == []


def test_objects_that_opa_does_not_get_are_told_without_what_steers_a_terminal() -> None:
    sidecar = {**HEALTHY, "leftOut": ["v1/pods: 2 objects (shop/a, shop/\x1b[31mb)"]}
    (sentence,) = problems.of_sidecars([GOOD], [sidecar])
    assert "v1/pods: 2 objects (shop/a, shop/\\x1b[31mb); replicate fewer `fields`" in sentence


def test_all_that_was_rejected_is_told_whatever_kind_of_object_it_is_in() -> None:
    rejected = [{"name": "teams", "status": "error", "error": "teams.yaml:1: is not JSON"}]
    waiting = [{"name": "new", "status": "pending", "error": None}]
    assert list(problems.of_policies([*rejected, *waiting], rejected)) == [
        "policies of teams are not in force (error: teams.yaml:1: is not JSON)",
        "policies of new are not in force (pending)",
        "data of teams are not loaded (error: teams.yaml:1: is not JSON)",
    ]


def test_opas_that_are_missing_unready_silent_empty_or_different_are_told() -> None:
    def of(*states: Served, replicas: int = 1) -> list[str]:
        return list(problems.of_opas(states, replicas))

    assert of(replicas=2) == ["0 of 2 OPAs run"]
    assert of(replace(GOOD, ready=False)) == [f"opa-0 is not Ready; {SINCE}"]
    assert of(replace(GOOD, ready=False, confirmed=None, age=None)) == [
        "opa-0 is not Ready; nobody has confirmed its data"
    ]
    silent = replace(GOOD, ready=False, revision=None, confirmed=None, age=None, error="timed out")
    assert of(silent) == ["opa-0 cannot be asked: timed out"]
    assert of(replace(GOOD, revision=None)) == ["opa-0 serves no policies of Fairlead"]
    starting = replace(GOOD, opa=replace(GOOD.opa, engine="python"), revision=None)
    assert of(starting) == ["opa-0 has workers that do not have the revision of the others yet"]
    assert of(GOOD, replace(OTHER, revision="r2")) == ["OPAs serve different revisions: r1, r2"]


def webhook(state: str = AS_DEPLOYED, failure_policy: str = "Fail") -> Comparison:
    webhook = Compared(
        "MutatingWebhookConfiguration", "fairlead", None, state, failure_policy=failure_policy
    )
    return Comparison((webhook,))


def test_what_follows_while_nobody_answers_is_told() -> None:
    def of(*states: Served, comparison: Comparison | None = None) -> list[str]:
        return list(problems.of_silence(states, comparison or webhook()))

    silent = replace(GOOD, ready=False, revision=None, confirmed=None, age=None, error="timed out")
    refused = [
        "no OPA answers, so API servers refuse new pods in mapped namespaces, and whatever else "
        'they ask about. If that cannot wait, run `fairlead disable --reason "..."`'
    ]
    assert of(silent) == of(silent, replace(silent, opa=OTHER.opa)) == of() == refused
    assert of(replace(GOOD, ready=False, revision=None)) == refused
    assert of(replace(GOOD, ready=False), replace(OTHER, ready=False)) == refused
    assert of(replace(GOOD, ready=False)) == of(silent, OTHER) == []
    assert of(silent, comparison=webhook(failure_policy="Ignore")) == [
        "no OPA answers, so API servers admit pods unplaced: failurePolicy is Ignore"
    ]
    for state in (MISSING, UNKNOWN, DISABLED):
        assert of(silent, comparison=webhook(state)) == []
    assert of(silent, comparison=Comparison()) == []
    (of_python,) = problems.of_silence([silent], webhook(), "server in Python")
    assert of_python.startswith("no server in Python answers, so API servers refuse")


def test_sidecars_that_are_missing_or_unhealthy_are_told_with_the_age_of_the_data() -> None:
    def of(state: Served, *sidecars: dict[str, Any]) -> list[str]:
        return list(problems.of_sidecars([state], sidecars))

    assert of(GOOD) == [f"no sidecar runs beside opa-0; {SINCE}"]
    unhealthy = {**HEALTHY, "healthy": False, "reasons": ["it does not answer (timed out)"]}
    assert of(GOOD, unhealthy) == [
        f"the sidecar beside opa-0 is not ready: it does not answer (timed out); {SINCE}"
    ]
    assert of(replace(GOOD, age=91.0), HEALTHY) == [
        f"the sidecar beside opa-0 says that it is ready, but {SINCE.replace('40', '91')}"
    ]
    assert list(problems.of_sidecars([GOOD], None)) == [], "kube-mgmt tells nothing"


def test_controllers_that_are_missing_unhealthy_or_idle_are_told() -> None:
    works = {"pod": "c-1", "healthy": True, "reasons": [], "leading": True}
    waits = {**works, "pod": "c-2", "leading": False}
    silent = {**waits, "healthy": False, "reasons": ["it does not answer"], "leading": None}
    deployment = {"kind": "Deployment"}
    ends = {"kind": "Deployment", "metadata": {"name": "ends"}, "spec": {"replicas": 0}}
    assert list(problems.of_controllers([], None)) == [], "it is not deployed"
    assert list(problems.of_controllers([waits, works], deployment, ends)) == []
    (missing,) = problems.of_controllers([], deployment)
    assert missing.startswith("no controller runs: nothing renews OPA's certificate, ")
    (missing,) = problems.of_controllers([], deployment, ends)
    assert missing.endswith(". Access does not begin, and what has begun ends 30 s late")
    (unhealthy,) = problems.of_controllers([silent, works], deployment, ends)
    assert unhealthy == "the controller c-2 is not ready: it does not answer"
    (idle,) = problems.of_controllers([waits], deployment, ends)
    assert idle.startswith("no controller holds the Lease yet: ")
    idle_parts = [{**works, "leading": None}]
    assert list(problems.of_controllers(idle_parts, deployment)) == [], "it gives no access"
    (down,) = problems.of_controllers([works], deployment, {**ends, "spec": {"replicas": 1}})
    assert down.endswith("while the controller is down, no access ends")


def test_stale_namespaces_are_told_with_the_time_and_the_way_out() -> None:
    since = datetime.now(UTC) - timedelta(seconds=90)
    (problem,) = problems.of_replication([(OTHER, None), (GOOD, Lag(tuple("abcdefg"), since))])
    assert problem.startswith(f"the data of opa-0 have been stale since {texts.time(since)}, 9")
    assert (
        "the last change of 7 namespaces (a, b, c, d, e, ...), because its sidecar hangs; "
        "restart " in problem
    )
    (problem,) = problems.of_replication([(GOOD, Lag(("gone",), None))])
    assert problem.startswith(
        "the data of opa-0 are stale: they lack the last change of 1 namespace (gone), "
    )


def test_policies_certificates_and_servers_are_told() -> None:
    broken = {"name": "rules", "status": "error", "error": "a.rego:3: no"}
    assert list(problems.of_policies([broken])) == [
        "policies of rules are not in force (error: a.rego:3: no)"
    ]
    pending = {"name": "rules", "status": "pending", "error": None}
    assert list(problems.of_policies([pending])) == ["policies of rules are not in force (pending)"]
    dated = {
        "opa-tls": CA.create("ended", timedelta(seconds=-1)).cert_pem,
        "opa-tls-ca": CA.create("good", timedelta(days=1)).cert_pem,
    }
    assert list(problems.of_certificates(dated)) == [
        "the certificate opa-tls has ended: `fairlead deploy` replaces it"
    ]
    assert list(problems.of_servers([{"name": "sync", "running": False}])) == ["sync does not run"]


def test_objects_that_are_missing_or_changed_are_told_with_their_fields() -> None:
    def of(*compared: Compared) -> list[str]:
        return list(problems.of_objects(Comparison(compared)))

    mutating = Compared("MutatingWebhookConfiguration", "fairlead", None, AS_DEPLOYED)
    validating = replace(mutating, kind="ValidatingWebhookConfiguration")
    guard = Compared("ValidatingAdmissionPolicy", "fairlead-objects", None, AS_DEPLOYED)
    assert of(mutating, validating, guard) == []
    assert of(replace(mutating, state=MISSING), validating) == [
        "MutatingWebhookConfiguration fairlead is missing: deploy again, by `fairlead deploy` or "
        "by syncing the manifests from Git"
    ]
    assert of(replace(mutating, state=MISSING), replace(validating, state=MISSING))[0] == (
        "no webhook is left, so that API servers do not ask OPA: pods are created unplaced"
    )
    fields = tuple(f"spec.rules[{number}]" for number in range(7))
    assert of(replace(guard, state=DIFFERS, fields=fields)) == [
        "ValidatingAdmissionPolicy fairlead-objects is not what this version of Fairlead deploys "
        "(spec.rules[0], spec.rules[1], spec.rules[2], spec.rules[3], spec.rules[4], ...): "
        "deploy again, by `fairlead deploy` or by syncing the manifests from Git"
    ]
    assert of(replace(guard, state=UNKNOWN, error="forbidden")) == [
        "1 object could not be compared: forbidden"
    ]
    assert list(problems.of_objects(Comparison(error="away"))) == [
        "webhooks, guards and rights could not be compared: away"
    ]

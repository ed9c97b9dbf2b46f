"""The status of objects that the controller brings into force."""

from __future__ import annotations

from typing import Any

from fairlead.controller import statuses
from fairlead.controller.statuses import Outcome

DONE = Outcome("0123456789ab", "2/2")
WRONG = Outcome(error="Policy b: spec.rego:3: bad", faults={("Policy", "b"): ["spec.rego:3: bad"]})


def policy(name: str, generation: int = 1, status: Any = None) -> dict[str, Any]:
    metadata = {"name": name, "generation": generation}
    return {"kind": "Policy", "metadata": metadata, "status": status or {}}


def after(value: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The object with the status that the outcome gives it."""
    patch = statuses.of(value, outcome)
    assert patch is not None
    merged = {**value["status"], **patch}
    return {**value, "status": {key: part for key, part in merged.items() if part is not None}}


def ready(value: dict[str, Any]) -> tuple[str, str, str]:
    (condition,) = value["status"]["conditions"]
    return condition["status"], condition["reason"], condition["message"]


def test_what_is_in_force_says_where_and_is_written_once() -> None:
    made = after(policy("a"), DONE)
    assert ready(made) == ("True", "InForce", "in force on 2/2 OPAs")
    assert (made["status"]["revision"], made["status"]["installed"]) == ("0123456789ab", "2/2")
    assert statuses.of(made, DONE) is None


def test_a_mistake_has_its_line_and_the_others_wait_for_it() -> None:
    wrong = after(policy("b"), WRONG)
    assert ready(wrong) == ("False", "Mistake", "spec.rego:3: bad")
    assert wrong["status"]["errors"] == [{"line": 3, "message": "spec.rego:3: bad"}]
    waiting = after(policy("a"), WRONG)
    assert ready(waiting)[:2] == ("False", "OthersAreWrong")
    assert "Policy b: spec.rego:3: bad" in ready(waiting)[2]
    mended = after(wrong, DONE)
    assert "errors" not in mended["status"]
    assert ready(mended)[0] == "True"


def test_what_is_in_force_as_it_is_stays_so_whatever_others_do() -> None:
    made = after(policy("a"), DONE)
    assert statuses.of(made, WRONG) is None
    assert statuses.of(made, Outcome(error="OPA is away")) is None
    changed = {**made, "metadata": {"name": "a", "generation": 2}}
    failed = after(changed, Outcome(error="OPA is away"))
    assert ready(failed) == ("False", "Failed", "what was in force before stays so: OPA is away")
    assert failed["status"]["revision"] == "0123456789ab", "that of the generation before"


def test_the_time_changes_only_with_the_status() -> None:
    made = after(policy("a"), DONE)
    made["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    again = after(made, Outcome("ba9876543210", "2/2"))
    assert again["status"]["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_only_what_would_fail_again_is_final() -> None:
    assert (DONE.is_final, WRONG.is_final, Outcome(error="away").is_final) == (True, True, False)

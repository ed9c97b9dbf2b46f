"""What a real OPA logs of its decisions, by the flags that it is deployed with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairlead import cases, opa_cli, pod, policy, sidecars, staging, waiting
from fairlead.engines import opa as opa_engine
from fairlead.evaluate import ask
from fairlead.fuzz.server import Opa, running
from fairlead.opa_api import OpaApi, OpaUnavailable
from fairlead.progress import Progress
from fairlead.settings import DecisionLogs, Settings

SECRET = "hunter2-hunter2"
CONSOLE = sidecars.KUBE_MGMT.decision_logs(Settings(), "127.0.0.1:1")
NAMESPACES = {"kubernetes/namespaces": {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}}


def review(uid: str, **spec: Any) -> dict[str, Any]:
    """A pod with a secret wherever one may be."""
    container = {"name": "c", "env": [{"name": "A", "value": SECRET}], "args": [SECRET], "command": [SECRET]}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "payments",
            "userInfo": {"username": "jane", "groups": ["dev"], "extra": {"token": [SECRET]}},
            "object": {
                "metadata": {"name": "web", "annotations": {"a": SECRET}},
                "spec": {"containers": [container], "initContainers": [container], **spec},
            },
        },
    }


class Logging(Opa):
    """An OPA with the deployed policies, and its log."""

    def __init__(self, folder: Path, *flags: str) -> None:
        bundle = staging.stage(policy.bundle(Settings()), Progress())
        super().__init__(folder, bundle=bundle, data=NAMESPACES, flags=flags)

    def decide(self, asked: dict[str, Any]) -> dict[str, Any]:
        api = self.api()
        try:
            return api.decide(asked)
        finally:
            api.close_connection()

    def logged(self, uid: str) -> dict[str, Any]:
        """The entry of the decision `uid`, once it is there."""

        def find() -> dict[str, Any] | None:
            lines = [
                json.loads(line) for line in self.log.read_text().splitlines() if line.startswith('{"decision_id"')
            ]
            return next((e for e in lines if (e.get("input") or {}).get("request", {}).get("uid") == uid), None)

        return waiting.until(find, deadline=20, what=f"decision {uid} is logged")


def test_a_decision_is_logged_with_its_uid_and_no_secret(tmp_path: Path) -> None:
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        answer = opa.decide(review("42", nodeSelector={"a": "b"}))
        entry = opa.logged("42")
        assert entry["result"] == answer
        assert entry["input"]["request"]["object"]["spec"] == {"nodeSelector": {"a": "b"}}
        assert "[decision 42]" in answer["response"]["status"]["message"]
        text = opa.log.read_text()
        assert SECRET not in text
        assert opa.token not in text
        # The sidecar's own requests, of which there were many, are no decisions.
        assert text.count('"decision_id"') == 1


def test_without_the_mask_secrets_would_be_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail."""
    guards = policy.guards
    monkeypatch.setattr(policy, "guards", lambda tokens: guards(tokens) | {policy.LOG: "package system.log"})
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        opa.decide(review("42"))
        opa.logged("42")
        assert SECRET in opa.log.read_text()


def test_the_mask_is_in_force_before_any_policy_is_loaded(tmp_path: Path) -> None:
    class Early(Logging):
        def _load(self, api: OpaApi) -> None:
            with pytest.raises(OpaUnavailable):
                self.decide(review("early"))
            super()._load(api)

    with running(Early(tmp_path, *CONSOLE)) as opa:
        assert opa.logged("early")["error"]
        assert SECRET not in opa.log.read_text()


def test_a_policy_that_unmasks_has_nothing_logged(tmp_path: Path) -> None:
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        api = opa.api()
        api.put_policy("unmask", "package system.log\n\nmask := []")
        opa.decide(review("42"))
        api.delete_policy("unmask")
        api.close_connection()
        opa.decide(review("43"))
        opa.logged("43")
        text = opa.log.read_text()
        assert SECRET not in text
        assert text.count('"decision_id"') == 1


def test_no_deployment_puts_the_mask_where_an_api_call_could_change_it() -> None:
    assert not [key for key in policy.bundle(Settings()).modules if key.endswith(policy.LOG)]


def test_without_the_console_no_decision_is_written() -> None:
    quiet = Settings(decision_logs=DecisionLogs(console=False))
    files = pod.Files(*(Path(name) for name in ("tls", "authz", "token")))
    sync = sidecars.SYNC.arguments(files, Settings(), "127.0.0.1:1", "127.0.0.1:2")
    assert set(sync) - set(sidecars.SYNC.arguments(files, quiet, "127.0.0.1:1", "127.0.0.1:2")) == {"--log-decisions"}
    assert sidecars.KUBE_MGMT.decision_logs(quiet, "127.0.0.1:2") == []
    # The sidecar counts them all the same.
    assert sidecars.SYNC.decision_logs(quiet, "127.0.0.1:2") == sidecars.SYNC.decision_logs(Settings(), "127.0.0.1:2")


def test_what_is_shown_of_a_review_is_decided_as_the_review_is() -> None:
    """A mask that hides what policies decide by makes a log that explains nothing."""
    questions = [opa_engine._question(case) for case in cases.load()]
    # What a template's update changes decides whether its placement is judged, and is not shown.
    questions = [q for q in questions if q.review["request"]["operation"] != "UPDATE" or _is_pod(q.review)]
    shown = opa_cli.evaluate(
        "[shown | some review in data.reviews; [mask] := data.system.log.mask "
        'with input as {"path": "system/main", "input": review}; shown := mask.value]',
        modules={policy.LOG: (policy.folder() / policy.LOG).read_text()},
        data={"reviews": [question.review for question in questions]},
    )
    masked = [replace(question, review=review) for question, review in zip(questions, shown, strict=True)]
    whole, again = ask(questions, Progress()), ask(masked, Progress())
    assert len(whole) > 90
    assert [answer.review for answer in again] == [answer.review for answer in whole]


def _is_pod(asked: dict[str, Any]) -> bool:
    return bool(asked["request"]["kind"]["kind"] == "Pod")

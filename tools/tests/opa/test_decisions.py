"""The decision logs of a real OPA with the flags of the deployment."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import ValidationError

from fairlead.admission.evaluate import ask
from fairlead.clusters.embedded import volume
from fairlead.common import waiting
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, sidecars
from fairlead.deployment.credentials import LOOPBACK, Credentials
from fairlead.opa import containers
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import OpaUnavailable
from fairlead.policy import cases, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import DecisionLogs, LogService, Settings
from fairlead.verification import opa as opa_engine
from lab.fuzz.server import CONSOLE, Opa, running

SECRET = "hunter2-hunter2"
FILES = containers.Files(*(Path(name) for name in ("tls", "authz", "token")))
NAMESPACES = {
    "kubernetes/namespaces": {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}
}


def review(uid: str, **spec: Any) -> dict[str, Any]:
    """A pod with a secret in every place that can hold one."""
    container = {
        "name": "c",
        "env": [{"name": "A", "value": SECRET}],
        "args": [SECRET],
        "command": [SECRET],
    }
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

    def __init__(self, folder: Path, *flags: str, limited: bool = True) -> None:
        bundle = staging.stage(PolicySet.load(Settings()).bundle, Progress())
        super().__init__(folder, bundle=bundle, data=NAMESPACES, flags=flags, limited=limited)

    def decide(self, asked: dict[str, Any]) -> dict[str, Any]:
        api = self.api()
        try:
            return dict(api.decide(asked))
        finally:
            api.close()

    def logged(self, uid: str) -> dict[str, Any]:
        """The log entry of the decision `uid`; waits for it."""

        def find() -> dict[str, Any] | None:
            lines = [
                json.loads(line)
                for line in self.log.read_text().splitlines()
                if line.startswith('{"decision_id"')
            ]
            return next(
                (e for e in lines if (e.get("input") or {}).get("request", {}).get("uid") == uid),
                None,
            )

        return waiting.until(find, deadline=20, what=f"decision {uid} is logged")


def test_a_decision_is_logged_with_its_uid_and_no_secret(tmp_path: Path) -> None:
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        answer = opa.decide(review("42", nodeSelector={"a": "b"}))
        entry = opa.logged("42")
        assert entry["result"] == answer
        assert entry["input"]["request"]["object"]["spec"] == {"nodeSelector": {"a": "b"}}
        assert answer["response"]["auditAnnotations"]["decisionUID"] == "42"
        text = opa.log.read_text()
        assert SECRET not in text
        assert opa.token not in text
        # The sidecar's own requests, of which there were many, are not decisions.
        assert text.count('"decision_id"') == 1


def test_megabytes_are_logged_in_few_kilobytes(tmp_path: Path) -> None:
    """Neither the request nor the answer, which may quote it, can fill a disk."""
    wide = [
        [[]] * 600_000,
        [{}] * 600_000,
        {str(number): "x" for number in range(130_000)},
        "x" * 2_800_000,
    ]
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        for number, labels in enumerate(wide):
            asked = review(
                str(number), nodeName="n" * 1_000, tolerations=[{"key": "k" * 1_000}] * 100
            )
            asked["request"]["object"]["metadata"] |= {"name": "n" * 50_000, "labels": labels}
            opa.decide(asked)
            assert len(json.dumps(opa.logged(str(number)))) < 40_000


def test_by_opas_own_logger_secrets_would_be_logged(tmp_path: Path) -> None:
    """Shows that the test above can fail."""
    with running(Logging(tmp_path, "--set=decision_logs.console=true", limited=False)) as opa:
        opa.decide(review("42"))
        opa.logged("42")
        assert SECRET in opa.log.read_text()


def test_nothing_secret_is_logged_before_any_policy_is_loaded(tmp_path: Path) -> None:
    class Early(Logging):
        def _load(self, api: OpaApi) -> None:
            with pytest.raises(OpaUnavailable):
                self.decide(review("early"))
            super()._load(api)

    with running(Early(tmp_path, *CONSOLE)) as opa:
        assert opa.logged("early")["error"]
        assert SECRET not in opa.log.read_text()


def test_a_policy_that_unmasks_changes_nothing(tmp_path: Path) -> None:
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        api = opa.api()
        api.put_policy("unmask", "package system.log\n\nmask := []")
        api.close()
        opa.decide(review("42"))
        opa.logged("42")
        assert SECRET not in opa.log.read_text()


def test_without_the_console_no_decision_is_written() -> None:
    quiet = Settings(decision_logs=DecisionLogs(console=False))
    loud_flags, quiet_flags = (
        sidecars.SYNC.arguments(FILES, PolicySet.load(settings), "127.0.0.1:1", "127.0.0.1:2")
        for settings in (Settings(), quiet)
    )
    assert set(loud_flags) - set(quiet_flags) == {"--log-decisions"}
    assert sidecars.KUBE_MGMT.decision_logs(FILES, quiet, "127.0.0.1:2") == []
    # The sidecar counts them all the same.
    assert sidecars.SYNC.decision_logs(FILES, quiet, "127.0.0.1:2") == sidecars.SYNC.decision_logs(
        FILES, Settings(), "127.0.0.1:2"
    )


def test_of_what_is_admitted_only_the_sample_is_logged(tmp_path: Path) -> None:
    settings = Settings.model_validate({"decisionLogs": {"sample": 0.000001}})
    flags = sidecars.KUBE_MGMT.decision_logs(FILES, settings, "127.0.0.1:1")
    with running(Logging(tmp_path, *flags)) as opa:
        for number in range(20):
            assert opa.decide(review(f"admitted-{number}"))["response"]["allowed"]
        opa.decide(review("refused", nodeSelector={"a": "b"}))
        assert opa.logged("refused")["labels"]["decision_sample"] == "0.000001"
        assert opa.log.read_text().count('"decision_id"') == 1


@pytest.mark.parametrize("sample", [0, 1e-9, 1.1, -1, "nan", "some"])
def test_a_sample_that_is_no_share_is_refused(sample: object) -> None:
    with pytest.raises(ValidationError, match=r"decisionLogs\.sample"):
        Settings.model_validate({"decisionLogs": {"sample": sample}})


@pytest.mark.parametrize("name", sidecars.BESIDE_OPA)
def test_the_sample_is_a_label_of_opa(name: str) -> None:
    def added(**logs: Any) -> set[str]:
        sampled, whole = (
            Settings.model_validate({"decisionLogs": {**logs, **sample}})
            for sample in ({"sample": 0.1}, {})
        )
        running_beside = sidecars.SIDECARS[name]
        flags = set(running_beside.decision_logs(FILES, sampled, "127.0.0.1:1"))
        return flags - set(running_beside.decision_logs(FILES, whole, "127.0.0.1:1"))

    label = {"--set=labels.decision_sample=0.100000"}
    assert added() == label
    assert added(service={"url": "https://logs.example"}) == label


def test_a_cluster_keeps_the_sample_only_if_there_is_one() -> None:
    sampled = Settings.model_validate({"decisionLogs": {"sample": 0.5}})
    assert sampled.deployed_document()["decisionLogs"] == {
        "console": True,
        "service": None,
        "sample": 0.5,
    }
    whole = Settings().deployed_document()
    assert whole["decisionLogs"] == {"console": True, "service": None}
    assert Settings.model_validate(whole).document() == Settings().document()


class Service:
    """A service for decision logs: HTTPS with its own CA, and a token."""

    def __init__(self, token: str) -> None:
        self.made = Credentials.fresh(LOOPBACK)
        self.entries: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                known = (self.path, self.headers["Authorization"]) == (
                    "/opa/logs",
                    f"Bearer {token}",
                )
                if known:
                    service.entries += json.loads(gzip.decompress(body))
                self.send_response(200 if known else 401)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/opa"

    @contextmanager
    def serving(self, folder: Path) -> Iterator[None]:
        (folder / "crt").write_bytes(self.made.certificate)
        (folder / "key").write_bytes(self.made.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "crt", folder / "key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        thread = Thread(target=self._server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@pytest.mark.parametrize("name", sidecars.BESIDE_OPA)
def test_a_service_gets_the_decisions_with_its_token_and_by_its_ca(
    tmp_path: Path, name: str
) -> None:
    sidecar = sidecars.SIDECARS[name]
    service = Service("the-token-of-the-service")
    logs = LogService(url=service.url, secret="logs", private_authority=True)
    settings = Settings(decision_logs=DecisionLogs(service=logs))
    files = containers.Files(*(tmp_path / name for name in ("tls", "authz", "token")))
    volume.write(
        Path(files.logs), {"token": b"the-token-of-the-service\n", "ca.crt": service.made.ca}
    )
    opa = Logging(tmp_path, *sidecar.decision_logs(files, settings, "127.0.0.1:1"))
    with service.serving(tmp_path), running(opa):
        opa.decide(review("42"))
        waiting.until(
            lambda: len(service.entries) > 0, deadline=20, what="the decision is uploaded"
        )
        assert [entry["input"]["request"]["uid"] for entry in service.entries] == ["42"]
        assert SECRET not in json.dumps(service.entries)
        opa.logged("42")
        assert "the-token-of-the-service" not in opa.log.read_text()


def test_the_secret_of_a_service_is_mounted_where_opa_reads_it() -> None:
    logs = LogService(url="https://logs.example", secret="logs", private_authority=True)
    settings = Settings(decision_logs=DecisionLogs(service=logs))
    for chosen, mounted in ((settings, [("logs", "/run/fairlead/logs", "logs")]), (Settings(), [])):
        rendered = manifests.render_objects(PolicySet.load(chosen), Credentials.fresh())
        spec = next(manifest for manifest in rendered if manifest["kind"] == "Deployment")["spec"][
            "template"
        ]["spec"]
        opa = next(container for container in spec["containers"] if container["name"] == "opa")
        volumes = {
            volume["name"]: volume.get("secret", {}).get("secretName") for volume in spec["volumes"]
        }
        mounts = [
            (mount["name"], mount["mountPath"], volumes[mount["name"]])
            for mount in opa["volumeMounts"]
        ]
        assert [mount for mount in mounts if mount[0] == "logs"] == mounted
        assert (
            "--set=services.logs.credentials.bearer.token_path=/run/fairlead/logs/token"
            in opa["args"]
        ) == bool(mounted)


@pytest.mark.parametrize(
    ("service", "wrong"),
    [
        ({"url": "http://logs.example"}, "url"),
        ({"url": "https://logs.example,x=y"}, "url"),
        ({"url": "https://logs.example", "privateAuthority": True}, "name it as `secret`"),
        ({"url": "https://logs.example", "token": "x"}, "token"),
        ({"url": "https://logs.example", "secret": "A b"}, "secret"),
    ],
)
def test_a_service_that_cannot_be_is_refused(service: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        Settings.model_validate({"decisionLogs": {"service": service}})


def test_what_is_shown_of_a_review_is_decided_as_the_review_is(tmp_path: Path) -> None:
    """An entry without the values that policies decide by would make the log useless."""
    # Other intents decide by values that logs do not show, such as images and users.
    placed = [case for case in cases.load() if case.intent == "node-pool"]
    questions = [
        replace(question, review=_with_uid(question.review, f"case-{number}"))
        for number, question in enumerate(map(opa_engine._question, placed))
    ]
    # What a template's update changes decides whether its placement is judged, and is not shown.
    questions = [
        q for q in questions if q.review["request"]["operation"] != "UPDATE" or _is_pod(q.review)
    ]
    with running(Logging(tmp_path, *CONSOLE)) as opa:
        for question in questions:
            opa.decide(question.review)
        shown = [opa.logged(q.review["request"]["uid"])["input"] for q in questions]
    masked = [
        replace(question, review=review) for question, review in zip(questions, shown, strict=True)
    ]
    policies = PolicySet.load(Settings())
    whole, again = (ask(asked, policies, Progress()) for asked in (questions, masked))
    assert len(whole) > 90
    assert [answer.review for answer in again] == [answer.review for answer in whole]


def _with_uid(asked: dict[str, Any], uid: str) -> dict[str, Any]:
    return {**asked, "request": {**asked["request"], "uid": uid}}


def _is_pod(asked: dict[str, Any]) -> bool:
    return bool(asked["request"]["kind"]["kind"] == "Pod")

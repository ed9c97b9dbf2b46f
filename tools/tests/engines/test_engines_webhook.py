"""How a case is sent to an API server; integration/tests and `fairlead verify` use the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import urllib3

from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from lab.engines.live.answers import carry, decision

POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {}}


class Answer:
    """A response in the form of urllib3."""

    def __init__(self, status: int, body: Any, warnings: list[str]) -> None:
        self.status = status
        self.reason = ""
        self.data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = urllib3.HTTPHeaderDict()
        for warning in warnings:
            self.headers.add("Warning", warning)


class Api:
    """Records the URL and the headers of the only request that it gets."""

    def __init__(self, answer: Answer, folder: Path) -> None:
        self.answer = answer
        self.url = ""
        self.headers = urllib3.HTTPHeaderDict()
        kubeconfig = folder / "kubeconfig"
        entry = {"cluster": {"server": "https://server"}, "context": {"cluster": "a", "user": "a"}}
        sections = {
            name: [{"name": "a", "user": {}, **entry}] for name in ("clusters", "contexts", "users")
        }
        kubeconfig.write_text(json.dumps({**sections, "current-context": "a"}))
        self.objects = Objects(kubeconfig)
        rest = self.objects._api.rest_client
        rest.pool_manager = self  # type: ignore[assignment]  # as far as it is used

    def request(
        self, method: str, url: str, *, headers: urllib3.HTTPHeaderDict, **_: Any
    ) -> Answer:
        self.url, self.headers = url, headers
        return self.answer


def test_warnings_are_read_from_all_headers_with_their_quotes(tmp_path: Path) -> None:
    warnings = [r'299 - "pod \"web\" a, b"', '299 - "c", 299 - "d"', '110 - "stale"']
    api = Api(Answer(201, POD, warnings), tmp_path)
    assert api.objects.request("POST", "/x").warnings == ('pod "web" a, b', "c", "d")


def test_a_user_is_impersonated_with_every_group(tmp_path: Path) -> None:
    api = Api(Answer(200, {}, []), tmp_path)
    api.objects.request(
        "GET", "/x", query={"command": ["a", "b"]}, user={"username": "eve", "groups": ["g1", "g2"]}
    )
    assert api.url == "https://server/x?command=a&command=b"
    assert api.headers["Impersonate-User"] == "eve"
    assert api.headers.getlist("Impersonate-Group") == ["g1", "g2", "system:masters"]


def test_nobody_is_impersonated_unasked(tmp_path: Path) -> None:
    api = Api(Answer(200, {}, []), tmp_path)
    api.objects.request("GET", "/x")
    assert not any(name.startswith("Impersonate") for name in api.headers)


@pytest.mark.parametrize(
    ("status", "body", "denied", "message"),
    [
        (201, {"message": "fine"}, False, ""),
        (
            403,
            {"message": 'admission webhook "a.b" denied the request: no, because'},
            True,
            "no, because",
        ),
        (
            403,
            {"message": "pods is forbidden: User cannot create"},
            False,
            "pods is forbidden: User cannot create",
        ),
        (
            500,
            {"message": 'failed calling webhook "a.b": timeout'},
            False,
            'failed calling webhook "a.b": timeout',
        ),
        (502, b"bad gateway", False, "bad gateway"),
        (500, b"[]", False, "the API server answers 500"),
    ],
)
def test_a_refusal_is_told_in_the_webhooks_own_words(
    status: int, body: Any, denied: bool, message: str, tmp_path: Path
) -> None:
    response = Api(Answer(status, body, []), tmp_path).objects.request("POST", "/x")
    assert (response.ok, response.denied, response.message) == (status == 201, denied, message)


@pytest.mark.parametrize(
    ("manifest", "parts", "path"),
    [
        (POD, (), "/api/v1/namespaces/a/pods"),
        (
            {"apiVersion": "apps/v1", "kind": "Deployment"},
            ("web",),
            "/apis/apps/v1/namespaces/a/deployments/web",
        ),
        ({"apiVersion": "v1", "kind": "Namespace"}, ("b",), "/api/v1/namespaces/b"),
        (
            {"apiVersion": "policy/v1", "kind": "Eviction"},
            ("web", "eviction"),
            "/api/v1/namespaces/a/pods/web/eviction",
        ),
    ],
)
def test_objects_have_their_paths(
    manifest: dict[str, Any], parts: tuple[str, ...], path: str
) -> None:
    assert path_of(manifest, "a", *parts) == path


def test_a_change_is_carried_over_to_the_live_object() -> None:
    live = {
        "a": 1,
        "b": {"x": 1, "default": 2},
        "c": [{"n": 1, "default": 3}],
        "gone": 1,
        "default": 4,
        "list": [1, 2],
    }
    old = {"a": 1, "b": {"x": 1}, "c": [{"n": 1}], "gone": 1, "list": [1]}
    new = {"a": 1, "b": {"x": 2}, "c": [{"n": 5}], "list": [1, 3], "more": {"y": 1}}
    assert carry(live, old, new) == {
        "a": 1,
        "b": {"x": 2, "default": 2},
        "c": [{"n": 5, "default": 3}],
        "default": 4,
        "list": [1, 3],
        "more": {"y": 1},
    }


def test_what_does_not_change_is_left_as_it_is_live() -> None:
    live = {"spec": {"nodeName": "n1", "volumes": [1]}}
    assert carry(live, {"spec": {}}, {"spec": {}, "metadata": {"labels": {}}}) == live | {
        "metadata": {"labels": {}}
    }


def test_the_api_servers_own_tolerations_do_not_count() -> None:
    own = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    gpu = {"key": "gpu", "operator": "Exists"}
    after = Response(201, {**POD, "spec": {"tolerations": [own[0], gpu, own[1]]}}, ())
    assert decision(after, POD).object["spec"]["tolerations"] == [gpu]
    asked = {**POD, "spec": {"tolerations": [own[0]]}}
    assert decision(after, asked).object["spec"]["tolerations"] == [own[0], gpu]


def test_what_api_servers_write_into_every_container_does_not_count() -> None:
    own = {
        "imagePullPolicy": "Always",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    token = {
        "name": "kube-api-access-x",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    data = {"name": "data", "mountPath": "/data"}
    asked = {"name": "c", "image": "nginx", "imagePullPolicy": "Always"}
    spec = {
        "containers": [{**asked, **own, "volumeMounts": [data, token]}],
        "initContainers": [{"name": "i", "image": "x", **own, "volumeMounts": [token]}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "kube-api-access-x"}],
    }
    after = Response(201, {**POD, "spec": spec}, ())
    assert decision(after, {**POD, "spec": {"containers": [asked]}}).object["spec"] == {
        "containers": [{**asked, "volumeMounts": [data]}],
        "initContainers": [{"name": "i", "image": "x"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "tolerations": [],
    }

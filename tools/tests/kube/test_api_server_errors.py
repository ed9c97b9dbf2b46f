"""What clients of the API server raise, and what the errors say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3
from kubernetes.client.exceptions import ApiException

from fairlead.kube import api_requests
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError, Refused, Unreachable

STATUS = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": 'pods "a" exists'}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (json.dumps(STATUS), 'pods "a" exists'),
        (json.dumps(STATUS).encode(), 'pods "a" exists'),
        ("busy\n", "busy"),
        (b"\xff", "\ufffd"),
        ("[1]", "[1]"),
        ("", "Conflict"),
        (None, "Conflict"),
    ],
)
def test_a_refusal_has_the_servers_own_words(body: str | bytes | None, message: str) -> None:
    error = Refused("cannot create it", 409, body, "Conflict")
    assert (error.status, error.message) == (409, message)
    assert str(error) == f"cannot create it: the API server says 409: {message}"


def test_a_path_that_is_not_served_is_told_in_words_of_the_field() -> None:
    error = Refused("GET /apis/example.com/v1/things", 404, "404 page not found\n")
    assert error.message == "it does not serve this kind of object"


@pytest.mark.parametrize(
    ("raised", "expected", "status"),
    [
        (ApiException(status=403, reason="Forbidden"), Refused, 403),
        (ApiException(status=0, reason="SSLError"), Unreachable, 0),
        (urllib3.exceptions.ProtocolError("reset"), Unreachable, 0),
        (ConnectionRefusedError("refused"), Unreachable, 0),
    ],
)
def test_the_clients_errors_become_ours(
    raised: Exception, expected: type[ApiServerError], status: int
) -> None:
    with (
        pytest.raises(expected, match=r"^cannot read it: the API server") as caught,
        api_requests.explained("cannot read it"),
    ):
        raise raised
    assert caught.value.status == status


def test_a_server_that_is_away_is_told_in_the_same_words_for_each_request(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1"
    kubeconfig = tmp_path / "kubeconfig"
    entry = {"cluster": {"server": url}, "context": {"cluster": "a", "user": "a"}, "user": {}}
    sections = {name: [{"name": "a", **entry}] for name in ("clusters", "contexts", "users")}
    kubeconfig.write_text(json.dumps({**sections, "current-context": "a"}))
    objects = Objects(kubeconfig)
    requests: list[Callable[[], object]] = [
        lambda: objects.call("GET", "/api/v1/pods"),
        lambda: objects.request("GET", "/api/v1/pods"),
        lambda: list(objects.collection("/api/v1/pods", {})),
        lambda: list(objects.events("/api/v1/pods", {}, "1", seconds=1)),
        lambda: objects.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}),
    ]
    for request in requests:
        with pytest.raises(
            Unreachable,
            match=r"^(GET /api/v1/pods|cannot create Pod a): the API server cannot be reached \(",
        ):
            request()

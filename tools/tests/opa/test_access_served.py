"""OPA answers the sync hook of transient access by its path, as it is deployed: by its plugin,
with a token, from a staged revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from access_requests import request

from fairlead.common.progress import Progress
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings
from lab.fuzz.server import Opa

_TIMEOUT = 60
"""Seconds for an answer."""


@pytest.fixture(scope="module")
def opa(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opa]:
    """A deployed OPA."""
    staged = staging.stage(PolicySet.load(Settings(access=Access())).bundle, Progress())
    server = Opa(
        tmp_path_factory.mktemp("opa"),
        bundle=staged,
        data={"kubernetes/namespaces": {}},
        limited=True,
    )
    try:
        server.start()
        yield server
    finally:
        server.stop()


def asked(opa: Opa, body: Any, *, token: str | None, path: str = "") -> requests.Response:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return requests.post(
        f"{opa.url}/v0/data/controller{path}",
        json=body,
        headers=headers,
        verify=str(opa.ca),
        timeout=_TIMEOUT,
    )


def test_the_answer_has_no_envelope_and_no_other_field(opa: Opa) -> None:
    response = asked(opa, request(validUntil="9999-12-31T23:59:59Z"), token=opa.token)
    assert response.status_code == 200
    answer = response.json()
    assert answer.keys() == {"status", "children", "resyncAfterSeconds"}


def test_a_decision_is_made_by_the_clock_of_opa(opa: Opa) -> None:
    always = request(validFrom="2020-01-01T00:00:00Z", validUntil="9999-12-31T23:59:59Z")
    over = request(validFrom="2020-01-01T00:00:00Z", validUntil="2020-01-01T00:00:01Z")
    to_come = request(validFrom="9999-01-01T00:00:00Z", validUntil="9999-12-31T23:59:59Z")
    answers = [asked(opa, body, token=opa.token).json() for body in (always, over, to_come)]
    assert [len(answer["children"]) for answer in answers] == [1, 0, 0]
    assert [answer["resyncAfterSeconds"] for answer in answers] == [60, 0, 3600]
    reasons = [answer["status"]["conditions"][0]["reason"] for answer in answers]
    assert reasons == ["NotObserved", "Expired", "Pending"]


def test_nobody_gets_it_without_the_token(opa: Opa) -> None:
    for token in (None, "", "x" * 43, opa.retired[0]):
        assert asked(opa, request(), token=token).status_code == 401
    assert asked(opa, request(), token=None, path="/children").status_code == 401


def test_a_request_that_cannot_be_read_gets_an_error_and_no_answer(opa: Opa) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a"}}
    bodies: list[dict[str, Any]] = [{}, {"parent": pod}, {"parent": []}]
    for body in bodies:
        response = asked(opa, body, token=opa.token)
        assert response.status_code == 500
        assert "there is no decision" in response.text


def test_while_a_module_of_the_revision_is_missing_the_answer_is_an_error(opa: Opa) -> None:
    """The path would answer {} otherwise, for which Metacontroller deletes the children."""
    (name, text) = next(
        (id_, text)
        for id_, text in opa.own_policies().items()
        if "transient_access.transient_access.rego" in id_
    )
    api = opa.api()
    try:
        api.remove_policy(name)
        assert asked(opa, request(), token=opa.token).status_code == 500
        api.put_policy(name, text)
        assert asked(opa, request(), token=opa.token).status_code == 200
    finally:
        api.close()

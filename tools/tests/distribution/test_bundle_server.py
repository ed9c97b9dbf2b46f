"""The server of bundles: answers OPAs as soon as there is something new, and keeps the last report
of each."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from fairlead.cli.bundle import command
from fairlead.common import waiting
from fairlead.distribution import archives, contents, signatures
from fairlead.distribution.archives import LARGEST
from fairlead.distribution.followers import AWAY, MOST, Followers
from lab.followers import BundleServer

LONG = "modes=snapshot,delta;wait=250"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BundleServer]:
    server = BundleServer(tmp_path_factory.mktemp("server"), signatures.new_key())
    try:
        server.start()
        yield server
    finally:
        server.stop()


def get(server: BundleServer, etag: str = "", prefer: str = "") -> requests.Response:
    headers = {"If-None-Match": etag, "Prefer": prefer}
    return requests.get(
        f"{server.url}/bundles/data.tar.gz", headers=headers, verify=str(server.ca), timeout=200
    )


def test_a_bundle_is_sent_only_to_those_that_lack_it(server: BundleServer) -> None:
    signed = server.push(contents.data({"placement": {"a": 1}}))
    answer = get(server)
    assert (answer.status_code, answer.content) == (200, signed.packed())
    assert answer.headers["Content-Type"] == "application/vnd.openpolicyagent.bundles"
    etag = answer.headers["ETag"]
    for known in (etag, f'"other", {etag}'):
        assert (get(server, known).status_code, get(server, known).content) == (304, b"")
    assert get(server, '"other"', LONG).status_code == 200
    assert get(server, etag, "wait=0").status_code == 304


def test_those_that_wait_get_the_next_bundle(server: BundleServer) -> None:
    """Each wait is longer than the limit of the request: only a new bundle ends it in time."""
    server.push(contents.data({"placement": {"a": 2}}))
    etag = get(server).headers["ETag"]
    with ThreadPoolExecutor(3) as clients:
        waits = [clients.submit(get, server, etag, LONG) for _ in range(2)]
        pushed = server.push(contents.data({"placement": {"a": 3}}))
        assert [each.result().content for each in waits] == [pushed.packed()] * 2
        etag = get(server).headers["ETag"]
        waits = [clients.submit(get, server, etag, LONG)]
        placed = server.signed(contents.data({"placement": {"a": 4}})).packed()
        server.place("data", placed)
        assert waits[0].result().content == placed


def test_what_is_no_bundle_is_not_given_out(server: BundleServer) -> None:
    server.place("data", b"no bundle")
    waiting.until(
        lambda: get(server).status_code == 404, deadline=180, what="the server has seen the file"
    )
    server.push(contents.data({"placement": {"a": 5}}))
    assert get(server).status_code == 200


def test_a_push_needs_its_token(server: BundleServer) -> None:
    url = f"{server.url}/bundles/data.tar.gz"
    packed = server.signed(contents.data({"placement": {"a": 6}})).packed()
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        answer = requests.put(url, packed, headers=headers, verify=str(server.ca), timeout=60)
        assert answer.status_code == 401
    token = {"Authorization": f"Bearer {server.token.read_text()}"}
    policies = f"{server.url}/bundles/policies.tar.gz"
    answer = requests.put(policies, packed, headers=token, verify=str(server.ca), timeout=60)
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "it is called 'data', and not 'policies'"},
    )
    assert requests.put(url, packed, headers=token, verify=str(server.ca), timeout=60).ok


def test_a_push_that_is_tried_again_succeeds(server: BundleServer) -> None:
    signed = server.push(contents.data({"placement": {"a": 7}}))
    server.put(signed)
    assert get(server).content == signed.packed()


def test_servers_with_the_same_bundle_stand_for_each_other(
    server: BundleServer, tmp_path: Path
) -> None:
    """An OPA that a load balancer leads to another server does not load its bundle again."""
    other = BundleServer(tmp_path, server.key)
    try:
        other.start()
        signed = server.push(contents.data({"placement": {"a": 8}}))
        other.put(signed)
        etag = get(server).headers["ETag"]
        assert get(other, etag).status_code == 304
    finally:
        other.stop()


def test_a_bundle_that_would_fill_the_memory_is_refused(server: BundleServer) -> None:
    """The server unpacks a bundle before it can tell who signed it."""
    token = {"Authorization": f"Bearer {server.token.read_text()}"}
    url = f"{server.url}/bundles/data.tar.gz"
    bomb = gzip.compress(bytes(2 * LARGEST))
    for body, status, problem in (
        (bomb, 400, "more than"),
        (bytes(LARGEST + 1), 413, "more than"),
        (b"rubbish", 400, "is no bundle"),
    ):
        answer = requests.put(url, body, headers=token, verify=str(server.ca), timeout=60)
        assert (answer.status_code, problem in answer.json()["error"]) == (status, True)


def test_a_status_says_when_a_signature_has_to_be_renewed(server: BundleServer) -> None:
    archive = contents.data({"placement": {"a": 9}})
    for lasts, code in ((timedelta(days=4), 0), (None, 0)):
        server.place("data", server.signed(archive, lasts=lasts).packed())
        assert status(server)[0] == code
    ended = signatures.sign(
        archive, server.key, scope=signatures.SCOPE, now=1000, lasts=timedelta(days=4)
    )
    server.place("data", ended.packed())
    code, said = status(server)
    assert code == 1
    assert "data counts until 1970-01-05T00:16:40Z, and OPAs stop deciding then" in said


def status(server: BundleServer) -> tuple[int, str]:
    """The exit code and the remarks of `fairlead bundle status`, when it sees the present file."""
    url, ca = server.url, str(server.ca)
    expected = archives.read(server.served / "data.tar.gz")
    waiting.until(
        lambda: server.of_bundle("data")["signed"] == expected.signed,
        deadline=180,
        what="the server has seen the file",
    )
    arguments = ["status", "--url", url, "--ca-file", ca]
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    return result.return_value, result.stderr


def test_a_report_that_is_none_is_refused(server: BundleServer) -> None:
    for body in (b"", b"[]", b'{"labels": {}}', b'{"labels": {"id": "a"}, "bundles": []}'):
        answer = requests.post(f"{server.url}/status", data=body, verify=str(server.ca), timeout=60)
        assert answer.status_code == 400, body


def report(identity: str, revision: str, **more: Any) -> dict[str, Any]:
    bundle = {"active_revision": revision, "last_successful_activation": "0001-01-01T00:00:00Z"}
    return {"labels": {"id": identity}, "bundles": {"policies": {**bundle, **more}}}


def test_opas_are_counted_by_their_last_report_until_they_are_gone() -> None:
    now = [1000.0]
    followers = Followers(lambda: now[0])
    followers.note(report("a", "one"))
    followers.note(report("b", "one", message="m", errors=[{"message": "e"}, {}]))
    now[0] += AWAY
    followers.note(report("a", "two"))
    summary = followers.summary({"policies": None})
    assert summary["bundles"][0]["revisions"] == {"one": 1, "two": 1}
    assert summary["bundles"][0]["failing"] == 1
    assert summary["opas"][1]["bundles"]["policies"] == {
        "revision": "one",
        "since": None,
        "error": "m: e",
    }
    now[0] += 1
    summary = followers.summary({"policies": None})
    assert summary["bundles"][0]["revisions"] == {"two": 1}
    now[0] += AWAY
    assert followers.summary({})["bundles"] == []


def test_only_so_many_opas_are_remembered() -> None:
    followers = Followers(lambda: 1000.0)
    for number in range(MOST):
        followers.note(report(str(number), "one"))
    with pytest.raises(ValueError, match=f"{MOST} other OPAs"):
        followers.note(report("more", "one"))
    followers.note(report("0", "two"))
    assert followers.summary({})["bundles"][0]["revisions"] == {"one": MOST - 1, "two": 1}

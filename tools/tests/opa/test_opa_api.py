"""The client of OPA's API, against a real OPA."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import opa_server
import pytest
from opa_server import OpaServer

from fairlead.clusters.embedded import ports
from fairlead.common.errors import UsageError
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import (
    DocumentRejected,
    OpaRefused,
    OpaUnavailable,
    PolicyRejected,
    Rejected,
    describe,
)
from fairlead.pki.certificates import CA


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpaServer]:
    with opa_server.running(OpaServer(tmp_path_factory.mktemp("opa"))) as running:
        yield running


@pytest.fixture
def opa(server: OpaServer) -> Iterator[OpaApi]:
    api = server.api()
    yield api
    for id_ in server.own_policies():
        api.remove_policy(id_)
    for path in ("documents", "kubernetes"):
        api.remove_document([path])


def test_a_policy_is_served_as_it_was_put_until_it_is_removed(
    opa: OpaApi, server: OpaServer
) -> None:
    text = 'package a.b\r\n\n# ä "quoted" \\ text\nx := 1 '
    opa.put_policy("ns/map/a b.rego", text)
    assert server.own_policies() == {"ns/map/a b.rego": text}
    opa.remove_policy("ns/map/a b.rego")
    assert server.own_policies() == {}


def test_removing_a_policy_that_is_not_there_is_fine(opa: OpaApi) -> None:
    opa.remove_policy("ns/map/none.rego")


def test_a_rejected_policy_is_told_with_file_and_line_and_the_old_one_stays(
    opa: OpaApi, server: OpaServer
) -> None:
    opa.put_policy("ns/map/a.rego", "package a\nx := 1")
    with pytest.raises(
        PolicyRejected, match=r"ns/map/a\.rego:3: rego_unsafe_var_error: var y is unsafe"
    ) as caught:
        opa.put_policy("ns/map/a.rego", "package a\n\nx := y")
    assert caught.value.error["errors"][0]["location"] == {
        "file": "ns/map/a.rego",
        "row": 3,
        "col": 6,
    }
    assert server.own_policies() == {"ns/map/a.rego": "package a\nx := 1"}


def test_rego_of_version_0_is_rejected_and_not_rewritten(opa: OpaApi) -> None:
    with pytest.raises(PolicyRejected, match="`if` keyword is required"):
        opa.put_policy("ns/map/a.rego", "package a\nallow { input.x }")


def test_a_policy_that_others_need_cannot_be_removed(opa: OpaApi) -> None:
    opa.put_policy("ns/map/f.rego", "package f\nf(x) := x")
    opa.put_policy("ns/map/a.rego", "package a\nx := data.f.f(1)")
    problem = r"a\.rego:2: rego_type_error: undefined function data\.f\.f"
    with pytest.raises(PolicyRejected, match=problem):
        opa.remove_policy("ns/map/f.rego")
    opa.remove_policy("ns/map/a.rego")


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("package a.b\nx := 1\ny.z := 2", [["data", "a", "b", "x"], ["data", "a", "b", "y", "z"]]),
        ('package system["\\u0061uthz"]\nallow := true', [["data", "system", "authz", "allow"]]),
        (
            'package system\none := 1  authz["allow"] := true',
            [["data", "system", "one"], ["data", "system", "authz", "allow"]],
        ),
        ("package a\nx := ", None),
    ],
)
def test_rules_are_told_without_loading_them(
    opa: OpaApi, server: OpaServer, text: str, paths: object
) -> None:
    assert opa.rules(text) == paths
    assert server.own_policies() == {}


@pytest.mark.parametrize("value", [{"a": [1, None]}, [], 0, "text", False, {"ä": "\u2028"}])
def test_a_document_may_be_any_json_value_at_any_path(opa: OpaApi, value: Any) -> None:
    path = ["documents", "a/b c", "x.json", "%2F?#"]
    opa.put_document(path, value)
    assert opa.document(path) == value
    opa.remove_document(path)
    assert opa.document(path) is None


def test_numbers_in_json_text_are_kept_digit_by_digit(opa: OpaApi) -> None:
    opa.put_json(["documents"], '{"large": 12345678901234567890123, "beyond": 1e400}')
    opa.put_policy(
        "p",
        "package p\nsame := data.documents.large == 12345678901234567890123\nbeyond := "
        "data.documents.beyond > 9e399",
    )
    assert opa.document(["p"]) == {"same": True, "beyond": True}


def test_a_patch_is_done_whole_or_not_at_all(opa: OpaApi) -> None:
    opa.put_document(["documents"], {"a": 1})
    opa.patch_json(
        ["documents"],
        '[{"op": "add", "path": "/b~1c", "value": {"x": 2}}, {"op": "remove", "path": "/a"}]',
    )
    assert opa.document(["documents"]) == {"b/c": {"x": 2}}
    with pytest.raises(DocumentRejected, match="documents"):
        opa.patch_json(
            ["documents"],
            '[{"op": "add", "path": "/d", "value": 1}, {"op": "remove", "path": "/none"}]',
        )
    assert opa.document(["documents"]) == {"b/c": {"x": 2}}
    with pytest.raises(DocumentRejected):
        opa.patch_json(["documents", "none"], '[{"op": "add", "path": "/d", "value": 1}]')


def test_keys_are_told_without_their_values(opa: OpaApi) -> None:
    opa.put_document(["documents"], {'a "b" /': {"x": 1}, "c": 2})
    assert sorted(opa.keys(["documents"])) == ['a "b" /', "c"]
    assert opa.keys(["documents", "c"]) == []
    assert opa.keys(["none"]) == []


def test_a_number_is_told_by_its_value(opa: OpaApi) -> None:
    opa.put_json(["documents"], "[1.0, 1e3, 1.5]")
    assert str(opa.document(["documents"])) == "[1, 1000, 1.5]"


def test_cas_are_those_given_whatever_becomes_of_their_file(
    server: OpaServer, tmp_path: Path
) -> None:
    both = CA.create("other", timedelta(hours=1)).cert_pem + server.ca.read_bytes()
    api = OpaApi(server.url, cas=both, token=server.token)
    assert api.policies()
    other = OpaApi(server.url, cas=CA.create("other", timedelta(hours=1)).cert_pem)
    with pytest.raises(OpaUnavailable, match="certificate verify failed"):
        other.policies()


def test_the_host_is_verified_too(server: OpaServer) -> None:
    # It reaches this machine, too, but the certificate does not name it.
    elsewhere = "0.0.0.0"  # noqa: S104
    url = server.url.replace("127.0.0.1", elsewhere)
    with pytest.raises(OpaUnavailable, match=re.escape(elsewhere)):
        OpaApi(url, cas=server.ca.read_bytes(), token=server.token).policies()


@pytest.mark.parametrize("cas", [b"", b"half", b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff"])
def test_what_is_no_ca_is_refused(cas: bytes) -> None:
    with pytest.raises(UsageError, match="is not a certificate"):
        OpaApi("https://127.0.0.1:1", cas=cas)


@pytest.mark.parametrize(
    "body", ["[]", '{"result": 1}', '{"result": [1]}', '{"result": {"paths": 1}}']
)
def test_garbage_for_an_answer_to_a_query_is_told(body: str) -> None:
    with _answering(200, body) as url, pytest.raises(OpaUnavailable):
        OpaApi(url).rules("package a")


def test_removing_a_document_that_is_not_there_is_fine(opa: OpaApi) -> None:
    opa.remove_document(["documents", "none"])


def test_a_document_where_a_policy_has_a_rule_is_rejected(opa: OpaApi) -> None:
    opa.put_policy("p", "package documents.a\nx := 1")
    with pytest.raises(DocumentRejected, match="conflicting rule for data path documents/a/x"):
        opa.put_document(["documents", "a"], {"x": 2})


@pytest.mark.parametrize("token", ["wrong", None])
def test_a_wrong_or_missing_token_is_told_apart(server: OpaServer, token: str | None) -> None:
    api = OpaApi(server.url, ca=server.ca, token=token)
    for call in (
        api.policies,
        lambda: api.document(["a"]),
        lambda: api.put_policy("p", "package p"),
        lambda: api.rules(""),
    ):
        with pytest.raises(OpaRefused, match="token"):
            call()


def test_the_decision_takes_no_token(opa: OpaApi, server: OpaServer) -> None:
    opa.put_policy("p", 'package system\nmain := {"got": input.request.uid}')
    assert OpaApi(server.url, ca=server.ca).decide({"request": {"uid": "1"}}) == {"got": "1"}


def test_an_opa_without_policies_cannot_decide(server: OpaServer) -> None:
    problem = r"no policy that decides: undefined_document: document missing: data\.system\.main"
    with pytest.raises(OpaUnavailable, match=problem):
        server.api().decide({})


def test_an_opa_is_ready_once_its_policy_says_so(opa: OpaApi) -> None:
    assert not opa.ready()
    opa.put_policy(
        "p", "package system.health\ndefault ready := false\nready if data.kubernetes.namespaces"
    )
    assert not opa.ready()
    opa.put_document(["kubernetes", "namespaces"], {})
    assert opa.ready()


def test_an_opa_that_is_not_there_is_unavailable_and_not_ready() -> None:
    api = OpaApi(f"http://127.0.0.1:{ports.free_ports(1)[0]}")
    assert not api.ready()
    with pytest.raises(OpaUnavailable, match="Connection refused"):
        api.policies()


def test_only_the_given_ca_is_trusted_whatever_the_environment_says(
    server: OpaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(CA.create("other", timedelta(hours=1)).cert_pem)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(other))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert server.api().policies()
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(server.ca))
    with pytest.raises(OpaUnavailable, match="certificate verify failed"):
        OpaApi(server.url, ca=other, token=server.token).policies()
    with pytest.raises(OpaUnavailable, match="cannot be reached"):
        OpaApi(server.url, ca=tmp_path / "none.crt", token=server.token).policies()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, "{}"),
        (503, "busy"),
        (200, "<html>"),
        (200, "[]"),
        (200, '{"result": 1}'),
        (200, '{"result": [{}]}'),
        (302, ""),
    ],
)
def test_errors_and_garbage_make_an_opa_unavailable(status: int, body: str) -> None:
    with _answering(status, body) as url, pytest.raises(OpaUnavailable):
        OpaApi(url).policies()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"code": "refused_by_fairlead", "message": "OPA is starting"}', "OPA is starting"),
        ('{"code": "internal_error", "message": "no room"}', "internal_error: no room"),
        ('{"kind": "Status", "code": 503, "message": "OPA is starting"}', "OPA is starting"),
        ("busy", "busy"),
        ("[1]", "[1]"),
    ],
)
def test_an_answer_with_an_error_is_told_by_its_message(body: str, reason: str) -> None:
    with _answering(502, body) as url, pytest.raises(OpaUnavailable) as raised:
        OpaApi(url).policies()
    assert str(raised.value).endswith(f" answers GET /v1/policies with 502: {reason}")


def test_a_review_that_cannot_be_read_is_rejected() -> None:
    with (
        _answering(400, '{"code": "invalid_parameter", "message": "no"}') as url,
        pytest.raises(Rejected, match="no"),
    ):
        OpaApi(url).decide({})


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8443", "ftp://x", "https://", "https://x:y", "https://x/v2", "https://[::1"],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="address of an OPA"):
        OpaApi(url)


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("http://localhost:8181/v1", "http://localhost:8181"),
        ("https://opa/v1/", "https://opa:443"),
        ("https://[::1]:8443", "https://[::1]:8443"),
    ],
)
def test_an_address_may_end_as_kube_mgmt_has_it(url: str, meant: str) -> None:
    assert OpaApi(url).url == meant


@pytest.mark.parametrize("token", ["", "two words", "line\n", "ä"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        OpaApi("http://127.0.0.1:1", token=token)
    assert not token or token not in str(caught.value)


def test_an_error_without_details_is_told_by_its_message() -> None:
    assert (
        describe({"code": "resource_conflict", "message": "conflict"})
        == "resource_conflict: conflict"
    )
    assert describe({}) == "no reason given"
    assert describe({"errors": 5}) == "no reason given"
    assert describe({"errors": [5]}) == "5"
    assert describe({"errors": [{"message": "m", "location": "x"}]}) == "m"


@contextmanager
def _answering(status: int, body: str) -> Iterator[str]:
    """A server with the same answer to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

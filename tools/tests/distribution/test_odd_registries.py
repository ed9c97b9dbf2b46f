"""What a push does with registries that answer anything: no password goes where it should not, and
nothing passes for a success."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from answering_servers import Reply, Request, Web, serving
from oci_registries import USER, basic, fresh_tls

from fairlead.common.errors import UsageError
from fairlead.distribution import archives, client, contents, signatures
from fairlead.distribution.archives import Archive

Answer = Callable[[Request], Reply]
REALM = "/token"


@pytest.fixture(scope="module")
def bundle() -> Archive:
    archive = contents.data({"placement": {}})
    return signatures.sign(
        archive, signatures.new_key(), scope=signatures.SCOPE, now=1000, lasts=None
    )


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "user").write_text(":".join(USER))
    return tmp_path / "user"


def push(web: Web, bundle: Archive, token: Path | None = None, ca: Path | None = None) -> str:
    """Push into the registry, with TLS if there is a CA."""
    url = web.url.replace("https", "oci").replace("http", "oci") + "/fleet"
    return client.push(url, bundle, bundle.packed(), token=token, ca=ca, plain=ca is None)


def takes(request: Request) -> Reply:
    """The answer of a registry that takes everything."""
    if request.method == "POST":
        return Reply(202, {"Location": "/v2/fleet/data/blobs/uploads/1?state=a"})
    return Reply(201)


def challenge(realm: str, status: int = 401) -> Reply:
    parameters = f'realm="{realm}",service=odd,scope="repository:fleet/data:pull"'
    return Reply(
        status, {"WWW-Authenticate": f'Negotiate, Basic realm="a, b", Bearer {parameters}'}
    )


def _challenge(realm: str, _: Request) -> Reply:
    return challenge(realm)


def gives(document: object) -> Reply:
    return Reply(200, body=json.dumps(document).encode())


def test_a_token_that_expires_in_the_middle_is_replaced(bundle: Archive, token: Path) -> None:
    """Each token is good for two requests."""
    numbers = itertools.count()
    uses: dict[str, int] = {}

    def answer(request: Request) -> Reply:
        if request.path.startswith(REALM):
            return gives({"access_token": f"token-{next(numbers)}"})
        uses[request.authorization] = uses.get(request.authorization, 0) + 1
        if not request.authorization.startswith("Bearer") or uses[request.authorization] > 2:
            return challenge(web.url + REALM)
        return takes(request)

    with serving(answer) as web:
        push(web, bundle, token)
    asked = [request for request in web.requests if request.path.startswith(REALM)]
    assert len(asked) == 3
    assert {request.authorization for request in asked} == {basic(*USER)}
    assert "scope=repository%3Afleet%2Fdata%3Apull%2Cpush" in asked[0].path
    assert "service=odd" in asked[0].path


def test_no_password_is_sent_without_tls(bundle: Archive, token: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"--token-file: http://registry.example.com/.* has no TLS"
    ):
        client.push(
            *("oci://registry.example.com/fleet", bundle, bundle.packed()), token=token, plain=True
        )
    with pytest.raises(
        UsageError, match=r"--token-file: http://policies.example.com/.* has no TLS"
    ):
        client.push("http://policies.example.com", bundle, bundle.packed(), token=token)
    tls, ca = fresh_tls(), tmp_path / "ca.crt"
    ca.write_bytes(tls.ca)
    with serving(lambda _: gives({"token": "a"})) as thief:
        for realm in (thief.url, "http://[", "ftp://127.0.0.1", ""):
            with (
                serving(partial(_challenge, realm), tls) as web,
                pytest.raises(UsageError, match="which has no TLS, so it gets no password"),
            ):
                push(web, bundle, token, ca)
        elsewhere = thief.url.replace("127.0.0.1", "localhost")
        with (
            serving(lambda _: challenge(elsewhere)) as web,
            pytest.raises(UsageError, match="which has no TLS, so it gets no password"),
        ):
            push(web, bundle, token)
    assert thief.requests == []


def test_another_host_for_uploads_gets_no_password(bundle: Archive, token: Path) -> None:
    def answer(request: Request) -> Reply:
        if request.authorization != basic(*USER):
            return Reply(401, {"WWW-Authenticate": "Basic"})
        return (
            Reply(202, {"Location": f"{other.url}/blobs"})
            if request.method == "POST"
            else takes(request)
        )

    with (
        serving(lambda _: challenge(f"{other.url}{REALM}")) as other,
        serving(answer) as web,
        pytest.raises(UsageError, match="answers 401"),
    ):
        push(web, bundle, token)
    assert [request.authorization for request in other.requests] == [""]
    with serving(takes) as other, serving(answer) as web:
        push(web, bundle, token)
    assert {request.authorization for request in other.requests} == {""}


def test_an_upload_does_not_leave_tls(bundle: Archive, tmp_path: Path) -> None:
    tls, ca = fresh_tls(), tmp_path / "ca.crt"
    ca.write_bytes(tls.ca)
    with (
        serving(lambda _: Reply(202, {"Location": web.url.replace("https", "http")}), tls) as web,
        pytest.raises(UsageError, match="X-Forwarded-Proto: https"),
    ):
        push(web, bundle, ca=ca)


def test_another_user_of_the_same_host_is_not_used(
    bundle: Archive, token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without more, the library requests would send what ~/.netrc has, in place of the token."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    def answer(request: Request) -> Reply:
        if request.path.startswith(REALM):
            return gives({"token": "good"})
        return (
            takes(request) if request.authorization == "Bearer good" else challenge(web.url + REALM)
        )

    with serving(answer) as web:
        push(web, bundle, token)
        client.push(web.url, bundle, bundle.packed(), token=_word(tmp_path))
    sent = {request.authorization for request in web.requests}
    assert sent == {"", basic(*USER), "Bearer good"}


def _word(folder: Path) -> Path:
    (folder / "word").write_text("good")
    return folder / "word"


def endless() -> Reply:
    return Reply(401, more=itertools.repeat(b" " * 65536))


def bomb() -> Reply:
    """A short answer that unpacks to a gigabyte."""
    packed = gzip.compress(b" " * 2**20) * 2**10
    return Reply(401, {"Content-Encoding": "gzip"}, packed[: 2**19])


ODD = {
    "everything is 200": (lambda _: Reply(200), "answers 200: OK: correct the URL"),
    "a login page": (
        lambda _: Reply(302, {"Location": "https://login.example.com/"}),
        "answers 302: Found, to https://login.example.com/: correct the URL",
    ),
    "a redirected push": (
        lambda request: (
            Reply(307, {"Location": "/there"}) if "manifests" in request.path else takes(request)
        ),
        "manifests/.*answers 307",
    ),
    "no place for an upload": (lambda _: Reply(202), "names no place for an upload"),
    "a place that is no URL": (
        lambda _: Reply(202, {"Location": "http://["}),
        "names no place for an upload",
    ),
    "an error that steers the terminal": (
        lambda _: Reply(403, body=b'{"errors": [{"message": "\\u001b[2J"}]}'),
        r"403: \\x1b\[2J: name a file",
    ),
    "errors that are none": (lambda _: Reply(500, body=b'{"errors": 1}'), "500: .*try again later"),
    "deep JSON": (
        lambda _: Reply(404, body=b"[" * 10**6),
        "404: .*create the repository fleet/data",
    ),
    "an endless answer": (lambda _: endless(), "answers with more than 1048576 bytes"),
    "a compressed bomb": (lambda _: bomb(), "answers 401"),
}


@pytest.mark.parametrize("kind", ODD)
def test_rubbish_is_no_success(kind: str, bundle: Archive) -> None:
    answer, problem = ODD[kind]
    with serving(answer) as web, pytest.raises(UsageError, match=problem):
        push(web, bundle)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"token": 1},
        {"token": ""},
        {"token": "a\nb"},
        {"token": "ü"},
        {"token": "a b"},
    ],
)
def test_what_is_no_token_is_not_sent(document: object, bundle: Archive) -> None:
    def answer(request: Request) -> Reply:
        return gives(document) if request.path.startswith(REALM) else challenge(web.url + REALM)

    with serving(answer) as web, pytest.raises(UsageError, match="answers, but with no token"):
        push(web, bundle)
    assert {request.authorization for request in web.requests} == {""}


def test_a_ca_that_is_missing_is_named(bundle: Archive, tmp_path: Path) -> None:
    with (
        serving(takes, fresh_tls()) as web,
        pytest.raises(UsageError, match=r"ca\.crt: is no file"),
    ):
        push(web, bundle, ca=tmp_path / "ca.crt")
    with serving(takes) as web, pytest.raises(UsageError, match="the server speaks no TLS"):
        client.push(web.url.replace("http", "oci") + "/fleet", bundle, bundle.packed())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_a_server_is_no_success(status: int, bundle: Archive, tmp_path: Path) -> None:
    """Many clients turn a redirected PUT into a GET, which would succeed."""
    redirect = partial(Reply, status, {"Location": "/elsewhere"})
    answer = lambda request: redirect() if request.path.startswith("/bundles") else Reply(200)  # noqa: E731
    with serving(answer) as web, pytest.raises(UsageError, match=f"refuses it .{status}."):
        client.push(web.url, bundle, bundle.packed(), token=_word(tmp_path))
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    "document", [None, [], {"bundles": [1], "opas": []}, {"bundles": [], "opas": [{"id": "a"}]}]
)
def test_the_status_of_another_server_is_none(document: object) -> None:
    with serving(lambda _: gives(document)) as web, pytest.raises(UsageError, match="not as"):
        client.status(web.url)
    with (
        serving(lambda _: Reply(200, more=itertools.repeat(b" " * 2**20))) as web,
        pytest.raises(UsageError, match=f"answers with more than {archives.LARGEST} bytes"),
    ):
        client.status(web.url)

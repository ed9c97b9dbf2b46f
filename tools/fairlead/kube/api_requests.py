"""Requests to an API server by their paths, with a bound for all that is read of its answers.

The kubernetes package finds the server, verifies it, and authorizes each request. What it lacks is
here: a deadline for every request, lists in pages and watches with bookmarks as raw JSON (models of
thousands of objects would not fit into a sidecar), several groups of an impersonated user,
warnings, and errors that name the object.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from fairlead.common import texts
from fairlead.common.errors import FairleadError
from fairlead.common.json_numbers import number
from fairlead.kube import configurations
from fairlead.kube.errors import ApiServerError, Refused, TooLarge, Unreachable
from fairlead.kube.responses import Response

log = logging.getLogger(__name__)

Timeout = float | tuple[float, float]
"""Seconds for a whole request, or for connecting and for each read."""
TIMEOUT = (5.0, 30.0)
BRIEF = (3.0, 10.0)
"""The timeout in processes that run for months, and have to notice that an API server hangs."""
PAGE = 500
"""Objects in one page of a list."""
SMALL_PAGE = 25
"""Objects in one page, for processes with a limit of memory."""
MOST = 2 * 2**20
"""Bytes of one answer of an API server that such processes read. etcd takes objects of 1.5 MiB; as
JSON, which writes `<` with six bytes, they may have more."""
_MOST_OF_PAGE = 32 * 2**20
"""Bytes of one page of a list, for others: such a page is asked for again with fewer objects."""
LEFT_OUT = "LEFT_OUT"
"""The type of an event that is too large to be read: only the object's names are known."""

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
# The last type is for servers that cannot reduce an object to its metadata.
METADATA = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
_CHUNK = 65536
"""Bytes that are read at once."""
_HEAD = 16384
"""Bytes that hold all of a list before its first object, and that object's name."""
_BEGINNING = re.compile(
    rb'(?:\{"type":"[A-Z]+","object":)?\{(?:"kind":"[^"\\]*","apiVersion":"[^"\\]*",)?'
    rb'"metadata":\{"name":"([^"\\]{1,253})"'
    rb'(?:,"generateName":"[^"\\]*")?(?:,"namespace":"([^"\\]{1,63})")?'
)


@contextmanager
def explained(action: str) -> Iterator[None]:
    """Raises Refused or Unreachable for the errors of the package; `action` begins the message."""
    try:
        yield
    except ApiException as error:
        if not error.status:
            raise Unreachable(action, error.reason) from error
        raise Refused(action, error.status, error.body, str(error.reason or "")) from error
    except (urllib3.exceptions.HTTPError, OSError, config.ConfigException) as error:
        raise Unreachable(action, error) from error


class ApiRequests:
    """Sends one request for each call, for several threads. Processes that run for months use it:
    they know their paths, need few rights, and try again by themselves.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        *,
        user: str = "",
        timeout: Timeout = TIMEOUT,
        page: int | None = None,
        most: int | None = None,
        turn: Callable[[], None] = lambda: None,
    ) -> None:
        """Reads the credentials of `kubeconfig`, or of the pod that this process runs in, and sends
        nothing yet. Raises UsageError.

        All requests are made in the name of `user`, if there is one. `page` is the number of
        objects in one page of a list, by default PAGE. `most` is the number of bytes of one answer
        or one event of a watch that are read, by default all: users write objects of megabytes.
        `turn` is called before each request and at each event of a watch.
        """
        self._kubeconfig = kubeconfig
        self._user = user
        self._timeout = timeout
        self._page = page or PAGE
        self._most = most
        self._turn = turn
        self._lock = Lock()
        self._api = self._connected()

    def renew(self) -> None:
        """Read all credentials again, certificates included; if that fails, the old ones stay."""
        with self._lock, suppress(FairleadError, OSError):
            self._api = self._connected()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        user: Mapping[str, Any] | None = None,
    ) -> Response:
        """The answer to one request, whatever its status, as the client's own user, or as `user`
        ({username, groups}) with the rights of an administrator. Raises Unreachable.
        """
        headers = urllib3.HTTPHeaderDict({"Accept": JSON, "Content-Type": JSON})
        if user is not None:
            headers["Impersonate-User"] = user["username"]
            for group in (*user.get("groups", ()), "system:masters"):
                headers.add("Impersonate-Group", group)
        action = f"{method} {path}"
        answer = self._send(method, path, query or {}, headers, body, action=action)
        with explained(action):
            return Response.of(answer)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, Any] | None = None,
        manager: str = "",
        accept: str = JSON,
        content_type: str = JSON,
        timeout: Timeout | None = None,
        most: int | None = None,
        action: str = "",
    ) -> dict[str, Any]:
        """The object or list that the API server answers. `manager` is the field manager of a
        change; `most` is the number of bytes to read, by default the client's; `action` begins the
        message of an error.

        Raises ApiServerError: for example with status 404 if there is no such object, and 409 if a
        patch names another resourceVersion than the object has. Raises TooLarge if the answer is
        longer.
        """
        action = action or f"{method} {path}"
        query = {"fieldManager": manager, **(query or {})}
        headers = {"Accept": accept, "Content-Type": content_type}
        answer = self._send(method, path, query, headers, body, timeout=timeout, action=action)
        _require_accepted(answer, action)
        try:
            value = json.loads(_read(answer, most or self._most, action), parse_float=number)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiServerError(
                f"{action}: the API server's answer cannot be read: {error}"
            ) from error
        if not isinstance(value, dict):
            raise ApiServerError(f"{action}: the API server's answer is not an object")
        return value

    def find(self, path: str, **options: Any) -> dict[str, Any] | None:
        """The object at a path; None if there is none. The `options` are those of `call`. Raises
        ApiServerError.
        """
        try:
            return self.call("GET", path, **options)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def send(
        self, method: str, path: str, body: Any = None, *, manager: str, content_type: str = JSON
    ) -> None:
        """Make a change whose answer nobody needs, so that its size does not matter. Raises
        ApiServerError.
        """
        action = f"{method} {path}"
        headers = {"Accept": JSON, "Content-Type": content_type}
        answer = self._send(method, path, {"fieldManager": manager}, headers, body, action=action)
        _require_accepted(answer, action)
        answer.drain_conn()

    def collection(
        self,
        path: str,
        selector: Mapping[str, str],
        *,
        metadata_only: bool = False,
        version: Callable[[str], None] = lambda _: None,
        left_out: Callable[[str], None] = lambda _: None,
        action: str = "",
    ) -> Iterator[dict[str, Any]]:
        """Every object of a list, page by page. `version` is called with the list's
        resourceVersion, before the objects of the last page.

        `selector` has a labelSelector, a fieldSelector or both. Each object has its apiVersion and
        kind, as in a watch. A page that is too large is asked for again with half of the objects,
        and an object that is too large by itself is left out with a line in the log; `left_out` is
        called with its <namespace>/<name>. Raises ApiServerError.
        """
        action = action or f"GET {path}"
        query, size = dict(selector), self._page
        accept = _METADATA_LIST if metadata_only else JSON
        while True:
            try:
                page = self.call(
                    "GET",
                    path,
                    query={"limit": size, **query},
                    accept=accept,
                    most=self._most or (_MOST_OF_PAGE if size > 1 else None),
                    action=action,
                )
            except TooLarge:
                if size > 1:
                    size //= 2
                    continue
                page = self._passing_over(path, query, action, left_out)
            size = min(self._page, size * 2)
            metadata = page.get("metadata") or {}
            if "resourceVersion" not in metadata or not isinstance(page.get("items") or [], list):
                raise ApiServerError(f"{action}: the API server's answer is not a list")
            version(metadata["resourceVersion"])
            type_meta = {
                "apiVersion": page.get("apiVersion"),
                "kind": str(page.get("kind")).removesuffix("List"),
            }
            yield from ({**type_meta, **item} for item in page.get("items") or [])
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def _passing_over(
        self, path: str, query: Mapping[str, Any], action: str, left_out: Callable[[str], None]
    ) -> dict[str, Any]:
        """The page with the next object, but without it. In a list of metadata, API servers write
        what concerns the page before the objects, so that its beginning suffices.
        """
        headers = {"Accept": _METADATA_LIST}
        answer = self._send("GET", path, {**query, "limit": 1}, headers, action=action)
        _require_accepted(answer, action)
        try:
            beginning = answer.read(_HEAD)
            answer.close()
            head, _, item = beginning.partition(b',"items":[')
            page = json.loads(head + b"}")
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiServerError(
                f"{action}: an object is too large, and cannot be passed over: {error}"
            ) from error
        name = texts.printable("/".join(_names(item).values())) or "an object"
        log.warning("%s: %s is left out, as it has more than %s bytes", action, name, self._most)
        left_out(name)
        return dict(page)

    def events(
        self,
        path: str,
        selector: Mapping[str, str],
        version: str,
        *,
        metadata_only: bool = False,
        seconds: int,
        on_open: Callable[[], None] = lambda: None,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each event after the resourceVersion `version`, as (type, object), for about `seconds`.
        Raises ApiServerError.

        Types: ADDED, MODIFIED, DELETED, and BOOKMARK, whose object has only a newer
        resourceVersion. Of an event that is too large, there are only the names of the object, and
        the type LEFT_OUT, unless it is DELETED. `on_open` is called once the API server has
        accepted the watch.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            **selector,
        }
        action = f"watching {path}"
        headers = {"Accept": METADATA if metadata_only else JSON}
        timeout = (BRIEF[0], seconds + 10.0)
        answer = self._send("GET", path, query, headers, timeout=timeout, action=f"GET {path}")
        _require_accepted(answer, f"GET {path}")
        on_open()
        try:
            for line, whole in _lines(answer, self._most):
                self._turn()
                if not whole:
                    yield _beginning(line, action, self._most)
                    continue
                event = json.loads(line, parse_float=number)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise Refused(action, int(status.get("code") or 0), json.dumps(status))
                yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(action, error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ApiServerError(
                f"{action}: the API server's answer is not an event: {error}"
            ) from error
        finally:
            answer.close()

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: Any = None,
        *,
        timeout: Timeout | None = None,
        action: str,
    ) -> urllib3.BaseHTTPResponse:
        """The answer to one request, whatever its status; its body is read only when asked for.
        Raises Unreachable.
        """
        self._turn()
        api = self._api
        pairs = urlencode({key: value for key, value in query.items() if value}, doseq=True)
        url = f"{api.configuration.host}{path}" + (f"?{pairs}" if pairs else "")
        authorized: MutableMapping[str, str] = urllib3.HTTPHeaderDict(headers)
        if self._user:
            authorized["Impersonate-User"] = self._user
        if headers.get("Content-Type") == APPLY:
            body = as_yaml(body)
        try:
            with explained(action):
                api.update_params_for_auth(authorized, [], ["BearerToken"], path, method, body)
                timeout = timeout or self._timeout
                answer: urllib3.BaseHTTPResponse = api.call_api(
                    method, url, authorized, body, _request_timeout=timeout
                ).response
        except ValueError:  # the text of http.client's error holds the token
            raise ApiServerError(
                "the credentials hold characters that no HTTP header can carry"
            ) from None
        return answer

    def _connected(self) -> client.ApiClient:
        configuration = configurations.load(self._kubeconfig)
        configuration.retries = False  # urllib3 would try four times, with the whole timeout each
        return client.ApiClient(configuration)


def _require_accepted(answer: urllib3.BaseHTTPResponse, action: str) -> None:
    """Raises Refused unless the API server accepts the request."""
    if answer.status < 300:
        return
    try:
        text = answer.data
    except (urllib3.exceptions.HTTPError, OSError):
        text = b""
    raise Refused(action, answer.status, text, answer.reason or "")


def as_yaml(body: Mapping[str, Any]) -> bytes:
    r"""A request's body as YAML that API servers can read, which is JSON in UTF-8.

    By default, JSON escapes characters beyond the basic plane as two surrogates (`"\ud83d\ude92"`).
    Surrogates are not characters in YAML, so the API server would refuse the request.
    """
    # A lone surrogate passes: it is up to the server to refuse it.
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")


def _read(answer: urllib3.BaseHTTPResponse, most: int | None, action: str) -> bytes:
    """The body. Raises TooLarge if it has more than `most` bytes, without reading them all."""
    if most is None:
        return answer.data
    if int(answer.headers.get("Content-Length") or 0) <= most:
        body = answer.read(most + 1)
        if len(body) <= most:
            answer.drain_conn()  # gives the connection back
            return body
    answer.close()
    raise TooLarge(f"{action}: the API server's answer has more than {most} bytes")


def _lines(answer: urllib3.BaseHTTPResponse, most: int | None) -> Iterator[tuple[bytes, bool]]:
    """Each line of a watch, and whether it is whole: of one with more than `most` bytes, there is
    only the beginning.
    """
    unfinished, too_long = b"", False
    for chunk in answer.stream(_CHUNK, decode_content=False):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        if too_long and lines:
            del lines[0]  # its end
            too_long = False
        yield from ((line, True) for line in lines if line)
        if most and len(unfinished) > most and not too_long:
            yield unfinished[:_HEAD], False
            too_long = True
        if too_long:
            unfinished = b""


def _beginning(line: bytes, action: str, most: int | None) -> tuple[str, dict[str, Any]]:
    """The event that begins with this text, for its reader to forget the object. Raises
    ApiServerError if the text does not tell which object it is, so that all are listed again.
    """
    names = _names(line)
    if "name" not in names:
        raise ApiServerError(f"{action}: a change of an object has more than {most} bytes", 410)
    log.warning(
        "a change of %s is left out, as it has more than %s bytes",
        texts.printable("/".join(names.values())),
        most,
    )
    deleted = line.startswith(b'{"type":"DELETED"')
    return "DELETED" if deleted else LEFT_OUT, {"metadata": names}


def _names(text: bytes) -> dict[str, str]:
    """The namespace and the name in the beginning of an object or event, where API servers write
    those of their own kinds, which may be larger as JSON than they are stored. Of others, whose
    beginning users can write, it has none.
    """
    match = _BEGINNING.match(text)
    if match is None:
        return {}
    names = {"namespace": match[2], "name": match[1]}
    return {key: name.decode(errors="replace") for key, name in names.items() if name}

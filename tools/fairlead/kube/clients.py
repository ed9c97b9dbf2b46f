"""The client of an API server.

The kubernetes package finds the server, verifies it, and authorizes each request. What it lacks is
here: a deadline for every request, lists in pages and watches with bookmarks as raw JSON (models of
thousands of objects would not fit into a sidecar), several groups of an impersonated user,
warnings, and errors that name the object. Its dynamic client would also read all API groups before
the first request, and keep them in a file that anyone can predict.
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
from tenacity import (
    retry,
    retry_if_exception,
    stop_after_attempt,
    stop_after_delay,
    wait_random_exponential,
)

from fairlead.common import texts
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.json_numbers import number
from fairlead.kube import api_paths, configurations, discovery
from fairlead.kube.discovery import Kind
from fairlead.kube.errors import ApiServerError, NotServed, Refused, TooLarge, Unreachable
from fairlead.kube.responses import Response
from fairlead.kube.stored_fields import FIELD_MANAGER as FIELD_MANAGER

log = logging.getLogger(__name__)

Timeout = float | tuple[float, float]
"""Seconds for a whole request, or for connecting and for each read."""
TIMEOUT = (5.0, 30.0)
BRIEF = (3.0, 10.0)
"""The timeout in processes that run for months, and have to notice that an API server hangs."""
PATIENCE = 15.0
"""Seconds for which a request is repeated while the API server is away."""
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
_OPERATIONS = "application/json-patch+json"
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


class _Client(client.ApiClient):
    """A client that gives up on a server that accepts connections and never answers."""

    def call_api(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("_request_timeout") is None:
            kwargs["_request_timeout"] = TIMEOUT
        return super().call_api(*args, **kwargs)


def connect(kubeconfig: Path) -> client.ApiClient:
    """A client for the typed APIs of the kubernetes package, with the cluster that `kubeconfig`
    names. Raises InputError if the file is invalid.
    """
    return _Client(configurations.load(kubeconfig))


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


def _is_temporary(error: BaseException) -> bool:
    """Whether the API server was away or too busy, and may answer in a moment."""
    return isinstance(error, ApiServerError) and error.status in (0, 429, 503, 504)


# For requests that may be repeated: a rotation or a push must not stop half-way because the API
# server restarts.
patiently = retry(
    retry=retry_if_exception(_is_temporary),
    stop=stop_after_delay(PATIENCE),
    wait=wait_random_exponential(multiplier=0.1, max=1.0),
    reraise=True,
)

# For changes that name the version of what they change: somebody else may have changed it since it
# was read.
agreed = retry(
    retry=retry_if_exception(lambda error: isinstance(error, Refused) and error.status == 409),
    stop=stop_after_attempt(5),
    reraise=True,
)


class Objects:
    """The objects of an API server, for several threads.

    The first methods take paths, and send one request each: processes that run for months know
    their paths, need few rights, and try again by themselves. The methods from `apply` on are for
    commands: they take kinds, find the paths by discovery, and repeat requests that may be repeated
    while the API server is away for a moment.
    """

    def __init__(
        self,
        kubeconfig: Path | None,
        *,
        field_manager: str = FIELD_MANAGER,
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
        self._field_manager = field_manager
        self._user = user
        self._timeout = timeout
        self._page = page or PAGE
        self._most = most
        self._turn = turn
        self._lock = Lock()
        self._api = self._connected()
        self._served: dict[tuple[str, str], Kind] = {}

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
        answer = self._send(method, path, query or {}, headers, body, timeout=None, action=action)
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
        answer = self._accepted(
            method,
            path,
            {"fieldManager": manager, **(query or {})},
            {"Accept": accept, "Content-Type": content_type},
            body,
            timeout=timeout,
            action=action,
        )
        try:
            value = json.loads(_read(answer, most or self._most, action), parse_float=number)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiServerError(
                f"{action}: the API server's answer cannot be read: {error}"
            ) from error
        if not isinstance(value, dict):
            raise ApiServerError(f"{action}: the API server's answer is not an object")
        return value

    def send(
        self, method: str, path: str, body: Any = None, *, manager: str, content_type: str = JSON
    ) -> None:
        """Make a change whose answer nobody needs, so that its size does not matter. Raises
        ApiServerError.
        """
        self._accepted(
            method,
            path,
            {"fieldManager": manager},
            {"Accept": JSON, "Content-Type": content_type},
            body,
            timeout=None,
            action=f"{method} {path}",
        ).drain_conn()

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
        answer = self._accepted(
            "GET",
            path,
            {**query, "limit": 1},
            {"Accept": _METADATA_LIST},
            timeout=None,
            action=action,
        )
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
        answer = self._accepted(
            "GET",
            path,
            query,
            {"Accept": METADATA if metadata_only else JSON},
            timeout=(BRIEF[0], seconds + 10.0),
            action=f"GET {path}",
        )
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

    @patiently
    def kinds(self) -> list[Kind]:
        """Every kind that is served, in the preferred version of its group. A group is left out
        while its own server (an aggregated API) is away. Raises ApiServerError.
        """
        action = "cannot read the API's resources"
        kinds = discovery.kinds(self.call("GET", api_paths.of_version("v1"), action=action))
        for group in self.call("GET", "/apis", action=action)["groups"]:
            version = group["preferredVersion"]["groupVersion"]
            try:
                kinds += discovery.kinds(
                    self.call(
                        "GET",
                        api_paths.of_version(version),
                        action=f"cannot read the resources of {group['name']}",
                    )
                )
            except Refused as error:
                if error.status not in (404, 503):
                    raise
        return kinds

    def serves(self, manifest: Mapping[str, Any]) -> bool:
        """Whether the API server has the manifest's kind. Raises Unreachable."""
        answer = self.request("GET", api_paths.of_version(manifest["apiVersion"]))
        return answer.ok and any(
            kind.name == manifest["kind"] for kind in discovery.kinds(answer.body)
        )

    @patiently
    def apply(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply; a field that the API does not know is an error. Raises Refused,
        Unreachable.
        """
        query = {"force": "true", "fieldValidation": "Strict", **_dry(dry_run)}
        return self._change("apply", manifest, manifest, query, content_type=APPLY)

    def apply_whole(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Apply a ConfigMap, and remove the keys that others added, which applying leaves. Returns
        the ConfigMap then. Raises Refused.
        """
        applied = self.apply(manifest, dry_run=dry_run)
        for field in ("data", "binaryData"):
            ours = manifest.get(field, {})
            if foreign := (applied.get(field) or {}).keys() - ours.keys():
                if not dry_run:
                    self.merge(manifest, {field: dict.fromkeys(foreign)})
                applied[field] = {key: applied[field][key] for key in ours}
        return applied

    @patiently
    def merge(self, manifest: Mapping[str, Any], patch: Mapping[str, Any]) -> None:
        """Change the fields in `patch` (RFC 7396) of the object that `manifest` identifies. Raises
        Refused.
        """
        self._change("change", manifest, patch, {}, content_type=MERGE)

    @patiently
    def patch(
        self,
        manifest: Mapping[str, Any],
        operations: list[dict[str, Any]],
        *,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Change the object that `manifest` identifies by a JSON Patch (RFC 6902); returns the
        object then. Raises Refused.
        """
        return self._change("change", manifest, operations, _dry(dry_run), content_type=_OPERATIONS)

    def create(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object, as a user would. Raises Refused."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        action = f"cannot create {kind} {metadata.get('name')}"
        path = self._path(action, version, kind, metadata.get("namespace"))
        return self.call("POST", path, manifest, action=action)

    @patiently
    def get(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """The object, or None if there is none. Raises Refused."""
        action = f"cannot read {kind} {name}"
        path = self._path(action, api_version, kind, namespace, name)
        try:
            return self.call("GET", path, action=action)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    @patiently
    def delete(
        self,
        api_version: str,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        orphan: bool = False,
    ) -> None:
        """Delete the object, if there is one, and what it owns. Raises Refused.

        With `grace`, a pod ends within that many seconds. With `orphan`, the objects that it owns
        stay, without an owner.
        """
        # By default, the pods of a Job would stay.
        body: dict[str, Any] = {"propagationPolicy": "Orphan" if orphan else "Background"}
        body |= {} if grace is None else {"gracePeriodSeconds": grace}
        action = f"cannot delete {kind} {name}"
        path = self._path(action, api_version, kind, namespace, name)
        try:
            self.call("DELETE", path, body, action=action)
        except Refused as error:
            if error.status != 404:
                raise

    @patiently
    def list(
        self, api_version: str, kind: str, namespace: str | None, labels: str = ""
    ) -> list[dict[str, Any]]:
        """The objects of a namespace (None for all) that a label selector matches, sorted by name.
        Raises Refused.
        """
        action = f"cannot list {kind}"
        path = self._path(action, api_version, kind, namespace)
        objects = self.collection(path, {"labelSelector": labels}, action=action)
        return sorted(objects, key=lambda item: str(item["metadata"]["name"]))

    def namespaces(self) -> dict[str, dict[str, Any]]:
        """Every namespace, name -> object. Raises ApiServerError."""
        items = self.list("v1", "Namespace", None)
        return {namespace["metadata"]["name"]: namespace for namespace in items}

    def _change(
        self,
        verb: str,
        manifest: Mapping[str, Any],
        patch: Any,
        query: Mapping[str, str],
        *,
        content_type: str,
    ) -> dict[str, Any]:
        """The object that `manifest` identifies, after this patch."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
        action = f"cannot {verb} {kind} {metadata['name']}"
        path = self._path(action, version, kind, metadata.get("namespace"), metadata["name"])
        return self.call(
            "PATCH",
            path,
            patch,
            query=query,
            manager=self._field_manager,
            content_type=content_type,
            action=action,
        )

    def _path(
        self, action: str, api_version: str, kind: str, namespace: str | None, name: str = ""
    ) -> str:
        """The path of an object, or of the collection of its kind. Raises Refused if the API server
        does not serve the kind.
        """
        if (api_version, kind) not in self._served:
            try:
                resources = self.call("GET", api_paths.of_version(api_version), action=action)
            except Refused as error:
                if error.status != 404:
                    raise
                resources = {}
            for kind_served in discovery.kinds(resources):
                self._served[api_version, kind_served.name] = kind_served
        resource = self._served.get((api_version, kind))
        if resource is None:
            raise NotServed(action)
        scope = namespace if resource.namespaced else None
        return api_paths.joined(api_version, scope, resource.plural, name)

    def _accepted(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: Any = None,
        *,
        timeout: Timeout | None,
        action: str,
    ) -> urllib3.BaseHTTPResponse:
        """The answer to one request; its body is read only when asked for. Raises ApiServerError
        unless the API server accepts the request.
        """
        answer = self._send(method, path, query, headers, body, timeout=timeout, action=action)
        if answer.status < 300:
            return answer
        try:
            text = answer.data
        except (urllib3.exceptions.HTTPError, OSError):
            text = b""
        raise Refused(action, answer.status, text, answer.reason or "")

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        body: Any,
        *,
        timeout: Timeout | None,
        action: str,
    ) -> urllib3.BaseHTTPResponse:
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


def reach(
    kubeconfig: Path,
    *,
    field_manager: str = FIELD_MANAGER,
    page: int | None = None,
    most: int | None = None,
) -> Objects:
    """The objects of the cluster that `kubeconfig` names; for `page` and `most`, see Objects.
    Raises UsageError if its API server cannot be reached, InputError if the file is invalid.
    """
    objects = Objects(kubeconfig, field_manager=field_manager, page=page, most=most)
    try:
        objects.call("GET", "/version", action="cannot read the API's resources")
    except Unreachable as error:
        raise UsageError(f"{kubeconfig}: {error}") from error
    return objects


def as_yaml(body: Mapping[str, Any]) -> bytes:
    r"""A request's body as YAML that API servers can read, which is JSON in UTF-8.

    By default, JSON escapes characters beyond the basic plane as two surrogates (`"\ud83d\ude92"`).
    Surrogates are not characters in YAML, so the API server would refuse the request.
    """
    # A lone surrogate passes: it is up to the server to refuse it.
    return json.dumps(body, ensure_ascii=False).encode(errors="surrogatepass")


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


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

"""A light client of the API server, for processes that run for months: it returns raw JSON, page by
page and event by event, and reads credentials again.

Least rights: get, list, watch and patch of configmaps in the namespaces that are read; get, list,
watch of namespaces and of what else is replicated. Source: Kubernetes documentation, "Kubernetes
API Concepts".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote

import urllib3
from kubernetes.client import ApiClient

from fairlead.common.errors import FairleadError
from fairlead.common.json_numbers import number
from fairlead.kube import transport
from fairlead.kube.errors import ApiServerError, Refused, Unreachable

PAGE = 500
"""Objects in one page of a list."""

# Of a namespace only the metadata is needed. The last type is for servers that cannot reduce an
# object to it.
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_TIMEOUT = (3.0, 10.0)  # seconds, to connect and for each read


class LiveNamespace(NamedTuple):
    """What a namespace has at this moment; `version` is its resourceVersion."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    version: str


class ApiServer:
    """A client for several threads; it never retries."""

    def __init__(
        self,
        kubeconfig: Path | None,
        turn: Callable[[], None] | None = None,
        *,
        page: int = PAGE,
    ) -> None:
        """Reads the credentials of `kubeconfig`, or of the pod that this process runs in, and sends
        nothing yet. Raises UsageError.

        `turn` is called before each request and at each event. `page` is the number of objects in
        one page of a list.
        """
        self._page = page
        self._kubeconfig = kubeconfig
        self._turn = turn or (lambda: None)
        self._lock = Lock()
        self._client = _connected(kubeconfig)

    def renew(self) -> None:
        """Read all credentials again, certificates included; if that fails, the old ones stay."""
        with self._lock, suppress(FairleadError, OSError):
            self._client = _connected(self._kubeconfig)

    def objects(
        self,
        path: str,
        selector: Mapping[str, str],
        *,
        metadata_only: bool,
        version: Callable[[str], None],
    ) -> Iterator[dict[str, Any]]:
        """Every object of a list. `version` is called with the list's resourceVersion, before the
        objects of the last page.

        `selector` has a labelSelector, a fieldSelector or both. Each object has its apiVersion and
        kind, as in a watch.
        """
        query = {"limit": str(self._page), **selector}
        while True:
            page = self._json(
                "GET", path, query, accept=_METADATA_LIST if metadata_only else "application/json"
            )
            metadata = page.get("metadata") or {}
            if "resourceVersion" not in metadata or not isinstance(page.get("items") or [], list):
                raise ApiServerError(f"GET {path}: the API server's answer is not a list")
            version(metadata["resourceVersion"])
            type_meta = {
                "apiVersion": page.get("apiVersion"),
                "kind": str(page.get("kind")).removesuffix("List"),
            }
            yield from ({**type_meta, **item} for item in page.get("items") or [])
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    def events(
        self,
        path: str,
        selector: Mapping[str, str],
        since: str,
        *,
        metadata_only: bool,
        seconds: int,
        opened: Callable[[], None],
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each event after the resourceVersion `since`, as (type, object), for about `seconds`.

        Types: ADDED, MODIFIED, DELETED, and BOOKMARK, whose object has only a newer
        resourceVersion. `opened` is called once the API server has accepted the watch.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
            **selector,
        }
        accept = _METADATA if metadata_only else "application/json"
        answer = self._send(
            "GET", path, query, accept=accept, timeout=(_TIMEOUT[0], seconds + 10.0)
        )
        opened()
        try:
            for line in _lines(answer):
                self._turn()
                event = json.loads(line, parse_float=number)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise Refused(
                        f"watching {path}", int(status.get("code") or 0), json.dumps(status)
                    )
                yield event["type"], event["object"]
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unreachable(f"watching {path}", error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ApiServerError(
                f"watching {path}: the API server's answer is not an event: {error}"
            ) from error
        finally:
            answer.close()

    def namespace(self, name: str) -> LiveNamespace | None:
        """The namespace `name` at this moment; None if there is none."""
        try:
            document = self._json(
                "GET", f"/api/v1/namespaces/{quote(name, safe='')}", {}, accept=_METADATA
            )
        except ApiServerError as error:
            if error.status == 404:
                return None
            raise
        metadata = document.get("metadata") or {}
        return LiveNamespace(
            metadata.get("labels") or {},
            metadata.get("annotations") or {},
            str(metadata.get("resourceVersion", "")),
        )

    def config_map(
        self, namespace: str, name: str, *, timeout: tuple[float, float] = _TIMEOUT
    ) -> dict[str, Any]:
        """A ConfigMap at this moment; `timeout` as for `annotate`. Raises ApiServerError, with
        status 404 if there is none.
        """
        return self._json("GET", _config_map(namespace, name), {}, timeout=timeout)

    def annotate(
        self,
        namespace: str,
        name: str,
        version: str,
        annotations: Mapping[str, str | None],
        *,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> None:
        """Set annotations of a ConfigMap that still has the resourceVersion `version`; None removes
        an annotation.

        `timeout` is in seconds, to connect and for each read. Raises ApiServerError: status 409 if
        the ConfigMap has changed since, 404 if it is gone.
        """
        path = _config_map(namespace, name)
        patch = {"metadata": {"resourceVersion": version, "annotations": dict(annotations)}}
        query = {"fieldManager": "fairlead-sync"}
        merge = "application/merge-patch+json"
        self._json(
            "PATCH", path, query, body=json.dumps(patch), content_type=merge, timeout=timeout
        )

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """The object or list at `path` at this moment. Raises ApiServerError, with status 404 if
        there is none.
        """
        return self._json("GET", path, query)

    def patch(
        self, path: str, patch: Mapping[str, Any], *, manager: str, strategic: bool = False
    ) -> dict[str, Any]:
        """The object at `path` after this patch, a merge patch unless `strategic`. `manager` is the
        field manager.

        If the patch has a metadata.resourceVersion, the object must still have it. Raises
        ApiServerError, with status 409 if it does not.
        """
        kind = f"application/{'strategic-merge' if strategic else 'merge'}-patch+json"
        return self._json(
            "PATCH", path, {"fieldManager": manager}, body=json.dumps(patch), content_type=kind
        )

    def apply(self, path: str, manifest: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """The object at `path` after this manifest was applied server-side, which creates it if
        there is none. Unlike a POST, RBAC can allow that for one name alone. Raises ApiServerError.
        """
        kind = "application/apply-patch+yaml"  # JSON is YAML
        return self._json(
            "PATCH", path, {"fieldManager": manager}, body=json.dumps(manifest), content_type=kind
        )

    def create(self, path: str, body: Mapping[str, Any], *, manager: str) -> dict[str, Any]:
        """The object that a POST of `body` to `path` creates. Raises ApiServerError."""
        text = json.dumps(body)
        return self._json(
            "POST", path, {"fieldManager": manager}, body=text, content_type="application/json"
        )

    def delete(self, path: str, *, uid: str) -> None:
        """Delete the object at `path` if it has this uid. Raises ApiServerError, with status 404 if
        there is none, and 409 if it has another uid.
        """
        body = json.dumps({"preconditions": {"uid": uid}})
        self._json("DELETE", path, {}, body=body, content_type="application/json")

    def _json(
        self, method: str, path: str, query: Mapping[str, str], **options: Any
    ) -> dict[str, Any]:
        answer = self._send(method, path, query, **options)
        try:
            value = json.loads(answer.data, parse_float=number)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiServerError(
                f"{method} {path}: the API server's answer cannot be read: {error}"
            ) from error
        if not isinstance(value, dict):
            raise ApiServerError(f"{method} {path}: the API server's answer is not an object")
        return value

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        accept: str = "application/json",
        body: str | None = None,
        content_type: str | None = None,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> urllib3.BaseHTTPResponse:
        self._turn()
        answer = transport.send(
            self._client,
            method,
            path,
            query={key: value for key, value in query.items() if value},
            headers={"Accept": accept} | ({"Content-Type": content_type} if content_type else {}),
            body=body,
            timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
        )
        if answer.status < 300:
            return answer
        try:
            text = answer.data
        except (urllib3.exceptions.HTTPError, OSError):
            text = b""
        raise Refused(f"{method} {path}", answer.status, text, answer.reason or "")


def _config_map(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"


def _connected(kubeconfig: Path | None) -> ApiClient:
    # Not persisted: a sidecar may not write to the file that it has mounted.
    return ApiClient(transport.configuration(kubeconfig, persist=False))


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    unfinished = b""
    for chunk in answer.stream(65536, decode_content=False):
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        yield from filter(None, lines)

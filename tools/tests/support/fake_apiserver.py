"""A fake API server that can list, watch, read and annotate, for situations that a real one
produces too rarely or too late."""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
Key = tuple[str, str, str]  # resource, namespace or "", name


class FakeApiServer(ThreadingHTTPServer):
    """Objects with resourceVersions, a history of events, and what clients have sent."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = "first"
        self.unserved = ""  # an API group that it does not have
        self.version = 100
        self.oldest = 0
        self.objects: dict[Key, Object] = {}
        self.history: list[tuple[int, str, Key, Object, Object | None]] = []
        self.changed = threading.Condition()
        self.requests: list[tuple[str, str]] = []
        self.stopping = False
        self.page = 500
        self.epoch = 0

    def put(
        self,
        resource: str,
        name: str,
        *,
        namespace: str = "",
        labels: dict[str, str] | None = None,
        **rest: Any,
    ) -> None:
        """Create or replace an object; annotations stay."""
        key = (resource, namespace, name)
        with self.changed:
            before = self.objects.get(key)
            # The name first, as API servers write it.
            metadata: Object = {"name": name, **({"namespace": namespace} if namespace else {})}
            metadata |= {"labels": labels or {}}
            if before:
                metadata["annotations"] = before["metadata"].get("annotations") or {}
            self._store(key, {"metadata": metadata, **rest}, before)

    def delete(self, resource: str, name: str, *, namespace: str = "") -> None:
        """Delete an object."""
        key = (resource, namespace, name)
        with self.changed:
            self._record(key, None, self.objects.pop(key))

    def compact(self) -> None:
        """Forget the history, as etcd does, and end all watches."""
        with self.changed:
            self.version += 1
            self.oldest = self.version
            self.epoch += 1
            self.changed.notify_all()

    def annotate(self, key: Key, patch: Object) -> Object | None:
        """Apply a merge patch of the metadata; None if the resourceVersion is not current."""
        with self.changed:
            before = self.objects[key]
            if patch["metadata"].get("resourceVersion") not in (
                None,
                before["metadata"]["resourceVersion"],
            ):
                return None
            after = copy.deepcopy(before)
            annotations_after = {
                **after["metadata"].get("annotations", {}),
                **patch["metadata"]["annotations"],
            }
            after["metadata"]["annotations"] = {
                name: text for name, text in annotations_after.items() if text is not None
            }
            self._store(key, after, before)
            return after

    def annotations(self, name: str, namespace: str = "fairlead") -> dict[str, str]:
        """The annotations of a ConfigMap."""
        with self.changed:
            return dict(
                self.objects["configmaps", namespace, name]["metadata"].get("annotations") or {}
            )

    def count(self, method: str, part: str) -> int:
        """The number of requests with `part` in their path or query."""
        return sum(1 for asked, path in list(self.requests) if asked == method and part in path)

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig whose token is in a file beside it, called token."""
        (folder / "token").write_text(self.token + "\n")
        document = {
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": f"http://127.0.0.1:{self.server_address[1]}"},
                }
            ],
            "users": [{"name": "test", "user": {"tokenFile": "token"}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(document))
        return path

    def stop(self) -> None:
        """End all watches, and the server."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self.shutdown()
        self.server_close()

    def _store(self, key: Key, after: Object, before: Object | None) -> None:
        self.objects[key] = after
        self._record(key, after, before)

    def _record(self, key: Key, after: Object | None, before: Object | None) -> None:
        self.version += 1
        current = after if after is not None else copy.deepcopy(before)
        assert current is not None
        current["metadata"]["resourceVersion"] = str(self.version)
        kind = "DELETED" if after is None else "MODIFIED" if before else "ADDED"
        self.history.append(
            (self.version, kind, key, copy.deepcopy(current), copy.deepcopy(before))
        )
        self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    server: FakeApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts, query = (
            self._parts(),
            {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()},
        )
        if not (self._allowed() and self._serves()):
            return
        resource, namespace, name = parts
        if name:
            stored = self.server.objects.get((resource, namespace, name))
            self._json(200 if stored else 404, stored or {"message": f"{name} not found"})
        elif query.get("watch"):
            self._watch(resource, namespace, query)
        else:
            self._list(resource, namespace, query)

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed():
            return
        key = self._parts()
        if key not in self.server.objects:
            self._json(404, {"message": "not found"})
            return
        after = self.server.annotate(key, body)
        self._json(200 if after else 409, after or {"message": "the object has been modified"})

    def _parts(self) -> Key:
        path = re.sub("^/(api|apis/[^/]+)/[^/]+/", "", urlsplit(self.path).path)
        segments = path.split("/")
        if segments[0] == "namespaces" and len(segments) >= 3:
            return segments[2], segments[1], segments[3] if len(segments) > 3 else ""
        return segments[0], "", segments[1] if len(segments) > 1 else ""

    def _allowed(self) -> bool:
        self.server.requests.append((self.command, self.path))
        if self.headers.get("Authorization") == f"Bearer {self.server.token}":
            return True
        self._json(401, {"message": "Unauthorized"})
        return False

    def _serves(self) -> bool:
        if not self.server.unserved or f"/apis/{self.server.unserved}/" not in self.path:
            return True
        self._send(404, b"404 page not found\n", "text/plain; charset=utf-8")
        return False

    def _list(self, resource: str, namespace: str, query: dict[str, str]) -> None:
        with self.server.changed:
            matching = [
                value
                for key, value in sorted(self.server.objects.items())
                if key[0] == resource and namespace in ("", key[1]) and _matches(value, query)
            ]
            start = int(query.get("continue", "0"))
            end = start + min(int(query["limit"]), self.server.page)
            metadata = {"resourceVersion": str(self.server.version)}
            metadata |= {"continue": str(end)} if end < len(matching) else {}
            kind = resource.removesuffix("s").capitalize() + "List"
            items = matching[start:end]
            self._json(
                200, {"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": items}
            )

    def _watch(self, resource: str, namespace: str, query: dict[str, str]) -> None:
        since = int(query["resourceVersion"])
        server = self.server
        if since < server.oldest:
            self._json(410, {"message": "too old resource version"})
            return
        epoch = server.epoch
        self.close_connection = True
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while True:
            with server.changed:
                news = [entry for entry in server.history if entry[0] > since]
                if not news:
                    server.changed.wait(0.5)
                if server.stopping or server.epoch != epoch:
                    return
            for version, kind, key, value, before in news:
                since = version
                if key[0] != resource or namespace not in ("", key[1]):
                    continue
                event = _event(kind, value, before, query)
                if event:
                    text = json.dumps({"type": event, "object": value}, separators=(",", ":"))
                    line = text.encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")

    def _json(self, status: int, value: Object) -> None:
        self._send(status, json.dumps(value, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _matches(value: Object | None, query: dict[str, str]) -> bool:
    label, _, value_of_label = query.get("labelSelector", "").partition("=")
    labels = value["metadata"]["labels"] if value else {}
    return bool(value) and (
        not label or (labels.get(label) == value_of_label if value_of_label else label in labels)
    )


def _event(kind: str, value: Object, before: Object | None, query: dict[str, str]) -> str | None:
    """The event for a watch with a selector: an object that no longer matches counts as deleted."""
    now = kind != "DELETED" and _matches(value, query)
    earlier = _matches(before, query)
    if now:
        return "MODIFIED" if earlier else "ADDED"
    return "DELETED" if earlier else None


@contextmanager
def running() -> Iterator[FakeApiServer]:
    """Run a fake API server during the block."""
    server = FakeApiServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()

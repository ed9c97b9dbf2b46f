"""The sidecar's client of the API server: lists, watches and credentials, against a fake server."""

from __future__ import annotations

import io
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import fake_apiserver
import pytest
import urllib3
from fake_apiserver import FakeApiServer

from fairlead.common import waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.kube import live_namespaces
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError
from fairlead.kube.live_namespaces import LiveNamespace
from fairlead.kube.resources import Resource
from fairlead.sync import watches as watching
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.watches import Watch

DEADLINE = 20.0
NAMESPACES = Source("namespaces")


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with fake_apiserver.running() as running:
        yield running


@pytest.fixture
def kubeconfig(server: FakeApiServer, tmp_path: Path) -> Path:
    return server.kubeconfig(tmp_path)


@pytest.fixture
def api(kubeconfig: Path) -> Objects:
    return Objects(kubeconfig)


class Followed:
    """A watch of namespaces in a thread of its own."""

    def __init__(self, api: Objects) -> None:
        self.desired = Desired([NAMESPACES], namespace_labels=["agentpool"])
        self.watch = Watch(api, NAMESPACES, {"labelSelector": "agentpool"}, self.desired, Metrics())
        self.stop = Event()
        self.thread = Thread(target=self.watch.run, args=(self.stop, lambda: None))
        self.thread.start()

    def sees(self, expected: dict[str, dict[str, str]]) -> None:
        waiting.until(
            lambda: known(self.desired) == expected, deadline=DEADLINE, what=f"sees {expected}"
        )


def known(desired: Desired) -> dict[str, dict[str, str]]:
    """The namespaces with their labels, once they have been listed."""
    store = desired.take().stores["namespaces"]
    if store is None:
        raise FairleadError("not listed yet")
    return {name: json.loads(text)["metadata"]["labels"] for (_, name), text in store.items()}


@pytest.fixture
def followed(api: Objects, server: FakeApiServer) -> Iterator[Followed]:
    followed = Followed(api)
    yield followed
    followed.stop.set()
    server.compact()  # ends the watch that it is in
    followed.thread.join()


def pool(name: str) -> dict[str, str]:
    return {"agentpool": name}


def test_a_list_is_read_page_by_page(server: FakeApiServer, api: Objects) -> None:
    server.page = 2
    for number in range(5):
        server.put("namespaces", f"n{number}", labels=pool("p"))
    versions: list[str] = []
    selector = {"labelSelector": "agentpool"}
    listed = api.collection(
        "/api/v1/namespaces", selector, metadata_only=True, version=versions.append
    )
    assert [value["metadata"]["name"] for value in listed] == [f"n{number}" for number in range(5)]
    assert versions == ["105"] * 3
    assert server.count("GET", "limit=500") == 3


def test_changes_are_followed_and_a_label_removed_is_a_removal(
    server: FakeApiServer, followed: Followed
) -> None:
    followed.sees({})
    assert followed.watch.trouble is None
    server.put("namespaces", "a", labels=pool("p1") | {"other": "x"})
    server.put("namespaces", "b", labels={})
    followed.sees({"a": pool("p1")})
    server.put("namespaces", "b", labels=pool("p2"))
    followed.sees({"a": pool("p1"), "b": pool("p2")})
    server.put("namespaces", "a", labels={})
    followed.sees({"b": pool("p2")})
    server.delete("namespaces", "b")
    followed.sees({})
    assert server.count("GET", "limit=500") == 1, "one list, the rest by events"


def test_a_compacted_history_is_listed_again_at_once(
    server: FakeApiServer, followed: Followed
) -> None:
    server.put("namespaces", "a", labels=pool("p1"))
    server.put("namespaces", "b", labels=pool("p1"))
    followed.sees({"a": pool("p1"), "b": pool("p1")})
    waiting.until(lambda: server.count("GET", "watch=true") == 1, deadline=DEADLINE, what="watches")
    with server.changed:
        server.delete("namespaces", "a")
        server.put("namespaces", "c", labels=pool("p2"))
        server.compact()
    followed.sees({"b": pool("p1"), "c": pool("p2")})
    waiting.until(
        lambda: server.count("GET", "limit=500") == 2, deadline=DEADLINE, what="a second list"
    )


def test_a_token_that_changes_is_picked_up_from_its_file(
    server: FakeApiServer, followed: Followed, tmp_path: Path
) -> None:
    followed.sees({})
    server.token = "second"
    server.put("namespaces", "a", labels=pool("p1"))
    server.compact()
    waiting.until(
        lambda: server.count("GET", "watch=true") > 1, deadline=DEADLINE, what="is refused"
    )
    (tmp_path / "token").write_text("second")
    followed.sees({"a": pool("p1")})


class Canned:
    """A client of an API with fixed answers."""

    def __init__(
        self, lists: list[list[str]], watches: list[list[tuple[str, str]] | ApiServerError]
    ) -> None:
        self.lists = lists
        self.watches = watches
        self.since: list[str] = []

    def collection(self, *_: object, version: Any, **__: object) -> Iterator[dict[str, Any]]:
        version("10")
        yield from ({"metadata": {"name": name}} for name in self.lists.pop(0))

    def events(
        self, path: str, selector: object, since: str, *, on_open: Any, **_: object
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        self.since.append(since)
        answer = self.watches.pop(0)
        if isinstance(answer, ApiServerError):
            raise answer
        on_open()
        for type_, version in answer:
            yield type_, {"metadata": {"name": f"n{version}", "resourceVersion": version}}

    def renew(self) -> None:
        """Nothing to renew."""


def canned(api: Canned) -> tuple[Watch, Desired]:
    desired = Desired([NAMESPACES], namespace_labels=[])
    return Watch(api, NAMESPACES, {}, desired, Metrics()), desired  # type: ignore[arg-type]


def follow(watch: Watch, times: int) -> None:
    for _ in range(times):
        try:
            watch.follow()
        except ApiServerError as error:
            watch._failed(error)


def test_a_watch_is_resumed_where_it_ended_also_after_a_bookmark() -> None:
    api = Canned([["a"]], [[("ADDED", "11"), ("BOOKMARK", "20")], ApiServerError("down"), []])
    watch, desired = canned(api)
    follow(watch, 3)
    assert api.since == ["10", "20", "20"]
    assert known(desired).keys() == {"a", "n11"}


def test_an_object_that_has_become_too_large_is_absent_until_it_is_small_again() -> None:
    api = Canned([["n11", "b"]], [[("LEFT_OUT", "11")], [("MODIFIED", "11")]])
    watch, desired = canned(api)
    follow(watch, 1)
    assert (set(known(desired)), watch.left_out) == ({"b"}, {"n11"})
    follow(watch, 1)
    assert (set(known(desired)), watch.left_out) == ({"n11", "b"}, set())


def test_while_something_has_no_room_all_is_listed_again_when_a_watch_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)
    api, full = Canned([["a"], ["b"]], [[], [], []]), [("shop", "a")]
    desired = Desired([NAMESPACES], namespace_labels=[])
    watch = Watch(api, NAMESPACES, {}, desired, Metrics(), again=lambda: full)  # type: ignore[arg-type]
    follow(watch, 1)
    assert known(desired).keys() == {"a"}
    full.clear()
    follow(watch, 2)
    assert (set(known(desired)), api.lists) == ({"b"}, [])


def test_all_is_known_up_to_the_last_list_event_or_end_of_a_watch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither an open watch nor a broken one confirms anything: the connection may be dead, or the
    server hung.
    """
    now = itertools.count(100.0)
    monkeypatch.setattr("fairlead.sync.watches.time.monotonic", lambda: next(now))
    api = Canned(
        [["a"]], [ApiServerError("down"), [], [("BOOKMARK", "20")], ApiServerError("down")]
    )
    watch, _ = canned(api)
    assert watch.confirmed is None
    follow(watch, 1)
    listed = watch.confirmed
    assert listed is not None
    for _ in ("a watch that ends without news", "one with a bookmark"):
        before = watch.confirmed
        follow(watch, 1)
        assert watch.confirmed > before
    before = watch.confirmed
    follow(watch, 1)
    assert watch.confirmed == before


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(None, (40, 60)), (10, (3, 3)), (30, (6, 10)), (90, (20, 30)), (86400, (40, 60))],
)
def test_watches_are_short_where_all_has_to_be_confirmed_soon(
    bound: int | None, expected: tuple[int, int]
) -> None:
    assert watching.seconds(bound) == expected


def test_gone_leads_to_a_new_list_and_known_namespaces_stay_until_it_is_there() -> None:
    api = Canned([["a"], ["b"]], [[("BOOKMARK", "12")], ApiServerError("gone", 410), []])
    watch, desired = canned(api)
    follow(watch, 2)
    assert known(desired).keys() == {"a"}
    follow(watch, 1)
    assert api.since == ["10", "12", "10"]
    assert known(desired).keys() == {"b"}


def test_a_restored_cluster_whose_versions_go_back_is_listed_again() -> None:
    api = Canned([["a"], ["b"]], [[("BOOKMARK", "30")], [("BOOKMARK", "7")], []])
    watch, desired = canned(api)
    follow(watch, 3)
    assert known(desired).keys() == {"b"}


def test_a_watch_that_cannot_be_opened_is_told_after_a_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("fairlead.sync.watches.time.monotonic", lambda: now[0])
    api = Canned([[]], [[], ApiServerError("refused"), ApiServerError("refused")])
    watch, _ = canned(api)
    assert watch.trouble == "namespaces: not listed yet"
    follow(watch, 2)
    assert watch.trouble is None
    now[0] += 6
    follow(watch, 1)
    assert watch.trouble == "namespaces: refused"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"type": "ERROR", "object": {"code": 410, "message": "too old"}}', "too old"),
        ('{"type": "ERROR", "object": {}}', "says 0"),
        ("garbage", "not an event"),
        ('{"no": "type"}', "not an event"),
    ],
)
def test_errors_and_garbage_among_events_end_the_watch(
    api: Objects, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    answer = urllib3.HTTPResponse(
        body=io.BytesIO(f"{line}\n".encode()), status=200, preload_content=False
    )
    monkeypatch.setattr(api, "_send", lambda *_, **__: answer)
    with pytest.raises(ApiServerError, match=message) as caught:
        list(api.events("/x", {}, "1", seconds=1))
    assert caught.value.gone is ("410" in line)


def test_a_namespace_is_looked_up_as_it_is_now(server: FakeApiServer, api: Objects) -> None:
    assert live_namespaces.look_up(api, "new") is None
    server.put("namespaces", "new", labels=pool("p"))
    assert live_namespaces.look_up(api, "new") == LiveNamespace(pool("p"), {}, str(server.version))
    server.token = "other"
    with pytest.raises(ApiServerError, match="Unauthorized"):
        live_namespaces.look_up(api, "new")


def test_an_api_server_that_is_not_there_is_told(kubeconfig: Path) -> None:
    document = json.loads(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    kubeconfig.write_text(json.dumps(document))
    with pytest.raises(ApiServerError, match="cannot be reached"):
        live_namespaces.look_up(Objects(kubeconfig), "a")


def test_a_token_that_no_header_can_carry_is_told_and_not_shown(kubeconfig: Path) -> None:
    document = json.loads(kubeconfig.read_text())
    document["users"][0]["user"] = {"token": "secret\nsecret"}
    kubeconfig.write_text(json.dumps(document))
    with pytest.raises(ApiServerError) as caught:
        live_namespaces.look_up(Objects(kubeconfig), "a")
    assert "secret" not in str(caught.value)


def test_an_empty_token_file_leaves_the_token_before(
    server: FakeApiServer, api: Objects, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("")
    assert live_namespaces.look_up(api, "a") is None
    (tmp_path / "token").unlink()
    assert live_namespaces.look_up(api, "a") is None


def test_a_kubeconfig_that_breaks_while_we_run_leaves_the_credentials_before(
    api: Objects, kubeconfig: Path
) -> None:
    kubeconfig.write_text("{")
    api.renew()
    assert live_namespaces.look_up(api, "a") is None


@pytest.mark.parametrize(
    "text", [None, "", "[]", "a: [", '{"current-context": "x"}', "\x00", "text"]
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match="kubeconfig"):
        Objects(path)


def test_outside_of_a_cluster_a_kubeconfig_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(UsageError, match="--kubeconfig"):
        Objects(None)


PODS = Source("objects", resource=Resource("", "v1", "pods", True))


def test_objects_are_read_from_all_namespaces_and_tell_their_kind(
    server: FakeApiServer, api: Objects
) -> None:
    server.put("pods", "web", namespace="shop", spec={"nodeName": "n1"})
    desired = Desired([PODS], namespace_labels=[])
    selector = {"fieldSelector": "metadata.namespace!=kube-system"}
    watch = Watch(api, PODS, selector, desired, Metrics())
    watch._list()
    (text,) = (desired.take().stores["pods"] or {}).values()
    assert json.loads(text) | {"metadata": {}} == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {"nodeName": "n1"},
    }
    assert (
        server.count(
            "GET", "/api/v1/pods?limit=500&fieldSelector=metadata.namespace%21%3Dkube-system"
        )
        == 1
    )


def test_of_a_kind_that_the_cluster_does_not_know_there_are_none_and_that_is_told() -> None:
    class Unknown(Canned):
        def collection(self, *_: object, **__: object) -> Iterator[dict[str, Any]]:
            raise ApiServerError("the server could not find the requested resource", 404)
            yield

    desired = Desired([PODS, NAMESPACES], namespace_labels=[])
    for source in (PODS, NAMESPACES):
        watch = Watch(Unknown([], []), source, {}, desired, Metrics())  # type: ignore[arg-type]
        follow(watch, 1)
        assert "could not find" in (watch.trouble or "")
    assert desired.take().stores == {"pods": {}, "namespaces": None}

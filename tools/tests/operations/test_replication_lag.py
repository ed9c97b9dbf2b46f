"""The namespaces whose last changes a real OPA lacks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import opa_server
import pytest
from opa_server import OpaServer

from fairlead.clusters import base
from fairlead.clusters.base import Cluster
from fairlead.opa.api import OpaApi
from fairlead.operations.replication_lag import Lag, lag

CREATED = "2026-11-22T10:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpaServer]:
    with opa_server.running(OpaServer(tmp_path_factory.mktemp("opa"))) as running:
        yield running


@pytest.fixture
def opa(server: OpaServer) -> Iterator[OpaApi]:
    api = server.api()
    yield api
    api.remove_document(["kubernetes"])
    api.close()


def namespace(name: str, version: str, *changed: str, **metadata: Any) -> dict[str, Any]:
    """A Namespace with these times of change."""
    managers = [{"manager": "kubectl", "operation": "Update", "time": time} for time in changed]
    known = {
        "name": name,
        "resourceVersion": version,
        "creationTimestamp": CREATED,
        "managedFields": managers,
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {**known, **metadata}}


def replicate(opa: OpaApi, *namespaces: dict[str, Any]) -> None:
    opa.put_document(
        ["kubernetes", "namespaces"],
        {namespace["metadata"]["name"]: namespace for namespace in namespaces},
    )


def lacks(server: OpaServer, *namespaces: dict[str, Any], patience: float = 0.1) -> Lag | None:
    """The lag of OPA in a cluster with these namespaces."""

    class Listed:
        def objects(self) -> Listed:
            return self

        def namespaces(self) -> dict[str, Any]:
            return {namespace["metadata"]["name"]: namespace for namespace in namespaces}

    opa = base.OpaServer(server.url, server.ca)
    return lag(cast("Cluster", Listed()), opa, server.token, patience=patience)


def test_an_opa_with_all_namespaces_lacks_nothing(server: OpaServer, opa: OpaApi) -> None:
    replicate(opa, namespace("a", "10"), namespace("b", "200"))
    assert lacks(server, namespace("a", "10"), namespace("b", "99")) is None, (
        "OPA's may be newer than what was listed"
    )
    replicate(opa)
    assert lacks(server) is None


def test_what_opa_was_not_told_is_named_with_the_time_of_the_first_change(
    server: OpaServer, opa: OpaApi
) -> None:
    replicate(opa, namespace("a", "10"), namespace("b", "99"), namespace("c", "30"))
    lag = lacks(
        server,
        namespace("a", "10"),
        namespace("b", "100", "2026-11-22T09:00:00Z", "2026-11-22T10:00:03Z"),
        namespace("c", "101", "2026-11-22T10:00:02Z"),
        namespace("d", "102", creationTimestamp="2026-11-22T10:00:04Z"),
    )
    assert lag == Lag(("b", "c", "d"), datetime(2026, 11, 22, 10, 0, 2, tzinfo=UTC))


def test_an_opa_that_never_got_any_lacks_all(server: OpaServer) -> None:
    assert lacks(server, namespace("a", "1")) == Lag(("a",), datetime.fromisoformat(CREATED))


def test_a_deleted_namespace_that_opa_still_has_is_named_without_a_time(
    server: OpaServer, opa: OpaApi
) -> None:
    replicate(opa, namespace("a", "10"), namespace("gone", "11"))
    assert lacks(server, namespace("a", "10")) == Lag(("gone",), None)


def test_a_change_that_is_on_its_way_is_waited_for(server: OpaServer, opa: OpaApi) -> None:
    replicate(opa, namespace("a", "10"))
    later = threading.Timer(0.5, replicate, [opa, namespace("a", "11")])
    later.start()
    assert lacks(server, namespace("a", "11"), patience=20) is None
    later.join()

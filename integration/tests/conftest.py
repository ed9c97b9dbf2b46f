"""Fixtures: one cluster for all tests with the same sidecar. Tests ask for `cluster` and do not
know where it runs.

FAIRLEAD_CLUSTER chooses it: embedded (the default) starts one that ends with the tests. kind and
context use an existing one (KIND_CLUSTER_NAME, FAIRLEAD_CONTEXT). Never use one that anybody needs:
the tests change its policies and labels.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waits import until

from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import sidecars
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.operations import deploy, deployed_state, diagnostics
from fairlead.operations.up import started
from fairlead.settings.images import overridden
from fairlead.settings.models import Images, Settings

TARGET = registry.of_environment()
EMBEDDED = TARGET.kind == "embedded"
SETTINGS = Settings(images=overridden(Images(), os.environ))
POOLS = {"pool1": 1, "pool2": 1}
# The one image that every cluster has that decides by OPA.
CONTAINERS = [
    {
        "name": "main",
        "image": SETTINGS.images.opa,
        "args": ["run", "--server", "--addr=127.0.0.1:8181"],
    }
]
_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "embedded(why): runs on an embedded cluster alone, for this reason"
    )
    config.addinivalue_line(
        "markers", "long: takes minutes, and therefore begins before the others"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        marker = item.get_closest_marker("embedded")
        if marker and not EMBEDDED:
            why = marker.args[0] if marker.args else "it needs a cluster of its own"
            item.add_marker(pytest.mark.skip(reason=f"an embedded cluster alone: {why}"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module with each sidecar of its SIDECARS, by default only `sync`; in an
    existing cluster with its own.
    """
    if "shared_sidecar" in metafunc.fixturenames:
        names = getattr(metafunc.module, "SIDECARS", [sidecars.SYNC.name]) if EMBEDDED else [""]
        ids = names if len(names) > 1 else [pytest.HIDDEN_PARAM]
        metafunc.parametrize("shared_sidecar", names, indirect=True, ids=ids, scope="session")


@pytest.fixture(scope="session")
def shared_sidecar(request: pytest.FixtureRequest) -> str:
    """The sidecar of the shared cluster; unknown in an existing one. It is no parameter of
    `cluster`, because that would keep the cluster of a module that has its own `cluster` to the
    end of the session.
    """
    sidecar: str = request.param
    return sidecar


@pytest.fixture(scope="session")
def cluster(shared_sidecar: str, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with the default settings. An embedded one ends with this process in any case."""
    with _embedded(shared_sidecar) if EMBEDDED else _found() as running:
        yield running
        if request.session.testsfailed and (folder := os.environ.get("FAIRLEAD_LOGS")):
            diagnostics.collect(running, Path(folder) / running.name)


@contextmanager
def _embedded(sidecar: str) -> Iterator[Cluster]:
    try:
        sidecars.SIDECARS[sidecar].command()
    except UsageError as error:
        pytest.skip(str(error))
    with started(
        f"test-{sidecar}-{os.getpid()}", SETTINGS, POOLS, sidecar=sidecar, progress=Progress()
    ) as running:
        yield running


@contextmanager
def _found() -> Iterator[Cluster]:
    running = registry.find(TARGET)
    deploy.deploy(running, SETTINGS, progress=Progress())
    yield running


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The deployed settings: the defaults, with the images that the environment names."""
    return SETTINGS


@pytest.fixture(scope="session")
def objects(cluster: Cluster) -> clients.Objects:
    """The cluster's API, as its administrator."""
    return cluster.objects()


@pytest.fixture
def token(objects: clients.Objects) -> str:
    """The current token of OPA's API, which some tests rotate."""
    credentials = deployed_state.credentials(objects)
    assert credentials is not None
    return credentials.token


@pytest.fixture
def opa(cluster: Cluster, token: str) -> Iterator[OpaApi]:
    """A client of OPA's API with the token; if there are several OPAs, of the first."""
    server, *_ = cluster.opas()
    api = OpaApi(server.url, ca=server.ca, token=token)
    yield api
    api.close()


@pytest.fixture
def anonymous(cluster: Cluster) -> Iterator[OpaApi]:
    """A client of OPA's API without a token."""
    server, *_ = cluster.opas()
    api = OpaApi(server.url, ca=server.ca)
    yield api
    api.close()


@pytest.fixture
def new_namespace(objects: clients.Objects) -> Iterator[Callable[..., str]]:
    """Creates a namespace with these labels, and the service account that pods need. Returns its
    name.
    """
    made = []

    def make(**labels: str) -> str:
        name = f"case-{os.getpid()}-{next(_numbers)}"
        objects.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
        made.append(name)
        objects.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": name},
            }
        )
        return name

    yield make
    if not EMBEDDED:  # one of our own goes as a whole
        for name in made:
            objects.delete("v1", "Namespace", name)


@pytest.fixture
def namespace(
    cluster: Cluster, objects: clients.Objects, new_namespace: Callable[..., str]
) -> Callable[..., str]:
    """The same, but beside a sidecar without lookups it waits until every OPA knows the
    namespace.
    """

    def make(**labels: str) -> str:
        name = new_namespace(**labels)
        if not cluster.sidecar.look_up:
            _until_known(cluster, objects, name)
        return name

    return make


def _until_known(cluster: Cluster, objects: clients.Objects, namespace: str) -> None:
    credentials = deployed_state.credentials(objects)
    assert credentials is not None

    def known() -> bool:
        apis = [
            OpaApi(server.url, ca=server.ca, token=credentials.token) for server in cluster.opas()
        ]
        try:
            return all(api.document(["kubernetes", "namespaces", namespace]) for api in apis)
        finally:
            for api in apis:
                api.close()

    until(known, what=f"every OPA knows namespace {namespace}")


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    """A Pod manifest with this spec."""

    def make(namespace: str, name: str = "web", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": CONTAINERS, **spec},
        }

    return make


@pytest.fixture(scope="session")
def bare_cluster() -> Iterator[BareCluster]:
    """A running cluster without Fairlead; for all tests."""
    with BareCluster(f"bare-{os.getpid()}") as running:
        running.start_control_plane(progress=Progress())
        yield running

"""One embedded cluster for all tests of a kind of sidecar; they ask for `cluster` and make namespaces of their own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlead import kube, serving, sidecars
from fairlead.clusters.base import Cluster
from fairlead.errors import UsageError
from fairlead.opa_api import OpaApi
from fairlead.progress import Progress
from fairlead.settings import Settings
from fairlead.up import started

POOLS = {"pool1": 1, "pool2": 1}
PAUSE = [{"name": "main", "image": "nginx:1.29"}]
_numbers = itertools.count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of a module run with each sidecar of its SIDECARS; by default just with `sync`."""
    if "cluster" in metafunc.fixturenames:
        names = getattr(metafunc.module, "SIDECARS", [sidecars.SYNC.name])
        ids = names if len(names) > 1 else [pytest.HIDDEN_PARAM]
        metafunc.parametrize("cluster", names, indirect=True, ids=ids, scope="session")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster with the default settings; it ends with this process, however that ends."""
    sidecar = sidecars.SIDECARS[request.param]
    try:
        sidecar.command()
    except UsageError as error:
        pytest.skip(str(error))
    name = f"test-{sidecar.name}-{os.getpid()}"
    with started(name, Settings(), POOLS, sidecar=sidecar.name, progress=Progress()) as running:
        yield running


@pytest.fixture(scope="session")
def objects(cluster: Cluster) -> kube.Objects:
    """The cluster's API, as its administrator."""
    return kube.Objects(kube.connect(cluster.kubeconfig))


@pytest.fixture
def token(objects: kube.Objects) -> str:
    """The token that OPA's API takes now: some tests rotate it."""
    credentials = serving.credentials(objects)
    assert credentials is not None
    return credentials.token


@pytest.fixture
def opa(cluster: Cluster, token: str) -> Iterator[OpaApi]:
    """OPA's API, with the token."""
    (server,) = cluster.opas()
    api = OpaApi(server.url, ca=server.ca, token=token)
    yield api
    api.close_connection()


@pytest.fixture
def anonymous(cluster: Cluster) -> Iterator[OpaApi]:
    """OPA's API, without a token."""
    (server,) = cluster.opas()
    api = OpaApi(server.url, ca=server.ca)
    yield api
    api.close_connection()


@pytest.fixture
def namespace(objects: kube.Objects) -> Callable[..., str]:
    """Makes a namespace with these labels, and the service account that the API server wants; tells its name."""

    def make(**labels: str) -> str:
        name = f"case-{next(_numbers)}"
        objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        objects.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        )
        return name

    return make


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    """A Pod manifest with this spec."""

    def make(namespace: str, name: str = "web", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": PAUSE, **spec},
        }

    return make

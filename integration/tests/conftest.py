"""Fixtures: tests ask for `cluster`, and do not know where it runs. See profiles.

FAIRLEAD_CLUSTER chooses it: embedded (the default) starts those of the profiles, which end with
their tests. kind and context use an existing one (KIND_CLUSTER_NAME, FAIRLEAD_CONTEXT), where the
tests of the default profile run that need nothing of this machine. Never use one that anybody
needs: the tests change its policies and labels.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from foreign import Foreign
from profiles import DEFAULT, EMBEDDED, SETTINGS, Running
from waits import DEADLINE, until

from fairlead.clusters import remote
from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.opa.api import OpaApi
from fairlead.operations import deployed_state, uninstall
from fairlead.settings.models import Settings

# The one image that every cluster has that decides by OPA.
CONTAINERS = [
    {
        "name": "main",
        "image": SETTINGS.images.opa,
        "args": ["run", "--server", "--addr=127.0.0.1:8181"],
    }
]
_numbers = itertools.count()
_running = Running()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "embedded(why): runs on an embedded cluster alone, for this reason"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marker = item.get_closest_marker("embedded")
        if marker and not EMBEDDED:
            why = marker.args[0] if marker.args else "it needs a cluster of its own"
            item.add_marker(pytest.mark.skip(reason=f"an embedded cluster alone: {why}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    _running.expect(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    try:
        yield
    finally:
        _running.finish(item, nextitem)


@pytest.hookimpl(trylast=True)  # after the fixtures of the last module
def pytest_sessionfinish() -> None:
    _running.end_all()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module in the clusters of its PROFILES; an existing cluster is one."""
    if "profile" in metafunc.fixturenames:
        names = getattr(metafunc.module, "PROFILES", [DEFAULT]) if EMBEDDED else [DEFAULT]
        ids = names if len(names) > 1 else [pytest.HIDDEN_PARAM]
        metafunc.parametrize("profile", names, indirect=True, ids=ids, scope="module")


@pytest.fixture(scope="module")
def profile(request: pytest.FixtureRequest) -> str:
    """The name of the cluster's profile."""
    return str(getattr(request, "param", DEFAULT))


@pytest.fixture(scope="module")
def cluster(profile: str) -> Any:
    """The cluster of the module's profile, as all its tests share it."""
    return _running.get(profile)


@pytest.fixture(scope="module")
def undeployed(cluster: Foreign) -> Iterator[Foreign]:
    """The cluster of the profile foreign, without Fairlead at first and in the end."""
    yield cluster
    deployed = remote.RemoteCluster(cluster.context, cluster.kubeconfig)
    uninstall.uninstall(deployed, progress=Progress())
    deployed.stop()


@pytest.fixture(scope="session")
def settings() -> Settings:
    """The deployed settings: the defaults, with the images that the environment names."""
    return SETTINGS


@pytest.fixture(scope="module")
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
    api = OpaApi(server.url, ca=server.ca, token=token, timeout=DEADLINE)
    yield api
    api.close()


@pytest.fixture
def anonymous(cluster: Cluster) -> Iterator[OpaApi]:
    """A client of OPA's API without a token."""
    server, *_ = cluster.opas()
    api = OpaApi(server.url, ca=server.ca, timeout=DEADLINE)
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

"""If another mutating webhook removes a pod's placement, the pod is refused, on a real API
server."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
from other_webhook import CHANGES, SETTINGS, VERSION, Create, refused, running
from profiles import SETTINGS as DEFAULTS
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet

pytestmark = pytest.mark.embedded("the API server has to reach webhooks of this process")

LOST = (
    'failed calling webhook "final-state.node-pool.fairlead.dev".*'
    "validating webhook may not return response.patch"
)
# The HTTP status, and words of the message.
REFUSALS: dict[str, tuple[int, str]] = {
    "removes the nodeSelector": (500, LOST),
    "removes the tolerations": (500, LOST),
    "changes the nodeSelector": (403, r'final-state.*places its pods in pool "pool1"'),
    "sets a nodeName": (403, r"final-state.*sets spec.nodeName=pool2-0"),
}


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with declared pools."""
    deploy.deploy(cluster, PolicySet.load(SETTINGS), progress=Progress())
    yield cluster
    deploy.deploy(cluster, PolicySet.load(DEFAULTS), progress=Progress())


@pytest.fixture(scope="module")
def objects(shared: Cluster) -> clients.Objects:
    return shared.objects()


@pytest.fixture(scope="module")
def create(objects: clients.Objects, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Create]:
    with running(objects, tmp_path_factory.mktemp("other")) as create:
        yield create


@pytest.fixture
def guarded(shared: Cluster, create: Create) -> Iterator[None]:
    """Wait until our validating webhook is in force, now and after the test."""
    until(lambda: refused(create, "sets a nodeName"), what="the final state is looked at")
    yield
    deploy.deploy(shared, PolicySet.load(SETTINGS), progress=Progress())


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("change", CHANGES)
def test_what_another_webhook_makes_of_a_placed_pod_is_refused(create: Create, change: str) -> None:
    status, words = REFUSALS[change]
    with pytest.raises(Refused, match=words) as no:
        create(change)
    assert no.value.status == status


@pytest.mark.usefixtures("guarded")
def test_without_the_validating_webhook_it_would_get_through(
    objects: clients.Objects, create: Create
) -> None:
    objects.delete(VERSION, "ValidatingWebhookConfiguration", "fairlead")

    def created(change: str) -> dict[str, Any] | None:
        try:
            return dict(create(change)["spec"])
        except Refused:
            return None

    def through(change: str) -> dict[str, Any]:
        return until(lambda: created(change), what=f"a pod gets through that {change}")

    assert "nodeSelector" not in through("removes the nodeSelector")
    tolerations = through("removes the tolerations").get("tolerations", [])
    assert [toleration for toleration in tolerations if toleration["key"] == "reserved"] == []
    assert through("changes the nodeSelector")["nodeSelector"] == {"agentpool": "pool2"}
    assert through("sets a nodeName")["nodeName"] == "pool2-0"


@pytest.mark.usefixtures("guarded")
def test_where_nothing_is_to_be_denied_it_gets_through_too(shared: Cluster, create: Create) -> None:
    deploy.deploy(
        shared,
        PolicySet.load(SETTINGS.model_copy(update={"enforcement": {"node-pool": "warn"}})),
        progress=Progress(),
    )
    for change in CHANGES:
        through = functools.partial(lambda change: refused(create, change) is None, change)
        until(through, what=f"a pod gets through that {change}")

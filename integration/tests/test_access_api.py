"""A deployment with transient access: OPA answers the sync hook, and status knows its guards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from profiles import EVERYTHING

from fairlead.clusters.base import Cluster
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.opa.api import OpaApi
from fairlead.operations import deploy, deployed_state, drift, push, rotate, uninstall
from fairlead.policy.policy_set import PolicySet

PROFILES = ["everything"]
pytestmark = pytest.mark.embedded("it has other settings")

WITHOUT = EVERYTHING.model_copy(update={"access": None})
PATH = "/v0/data/controller"
EXTENSIONS = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", None)
ADMISSION = "admissionregistration.k8s.io/v1"
REQUEST = {
    "parent": {
        "apiVersion": "access.fairlead.dev/v1",
        "kind": "TransientRoleBinding",
        "metadata": {"name": "night", "namespace": "shop", "uid": "u-1"},
        "spec": {
            "validFrom": "2020-01-01T00:00:00Z",
            "validUntil": "9999-12-31T23:59:59Z",
            "roleRef": {"kind": "Role", "name": "view"},
            "subjects": [{"kind": "User", "name": "alice"}],
        },
    },
    "children": {},
    "finalizing": False,
}


@pytest.fixture(scope="module")
def wanting(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster whose OPA decides on transient role bindings."""
    yield cluster
    deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())


def scoped_tokens(cluster: Cluster) -> tuple[str, ...]:
    """The valid tokens of the scope."""
    credentials = deployed_state.credentials(cluster.objects())
    assert credentials is not None
    return tuple(credentials.scoped["access"])


def asked(cluster: Cluster, body: Any, *, token: str | None, path: str = PATH) -> tuple[int, Any]:
    """The status and the body of OPA's answer."""
    server, *_ = cluster.opas()
    with contextlib.closing(OpaApi(server.url, ca=server.ca, token=token)) as api:
        response = api.session.post(api.url + path, json=body)
        return response.status_code, response.json() if response.content else None


def changed(cluster: Cluster) -> list[tuple[str, str]]:
    """The kinds and names of the objects that are not as they were deployed."""
    comparison = drift.compare(cluster, cluster.objects())
    assert comparison.error is None
    return [
        (each.kind, each.name) for each in comparison.objects if each.state != drift.AS_DEPLOYED
    ]


def test_it_answers_the_sync_hook_without_an_envelope(wanting: Cluster) -> None:
    status, answer = asked(wanting, REQUEST, token=scoped_tokens(wanting)[0])
    assert status == 200
    assert answer.keys() == {"status", "children", "resyncAfterSeconds"}
    assert [child["metadata"]["name"] for child in answer["children"]] == ["night"]


def test_nobody_else_may_ask(wanting: Cluster) -> None:
    assert asked(wanting, REQUEST, token=None)[0] == 401


def test_its_token_opens_nothing_else(wanting: Cluster) -> None:
    token = scoped_tokens(wanting)[0]
    for path in ("/v1/data/controller", f"{PATH}?pretty", f"{PATH}/status", "/v0/data"):
        assert asked(wanting, REQUEST, token=token, path=path)[0] == 401, path


def test_a_rotation_leaves_the_token_before_until_it_is_retired(wanting: Cluster) -> None:
    (before,) = scoped_tokens(wanting)
    rotate.scoped_token(wanting, "access", progress=Progress())
    assert scoped_tokens(wanting)[1:] == (before,)
    assert [asked(wanting, REQUEST, token=each)[0] for each in scoped_tokens(wanting)] == [200, 200]
    rotate.scoped_token(wanting, "access", retire=True, progress=Progress())
    assert asked(wanting, REQUEST, token=before)[0] == 401


def test_a_request_that_cannot_be_read_is_no_answer(wanting: Cluster) -> None:
    pod = {"parent": {"kind": "Pod", "metadata": {"name": "a"}}}
    status, answer = asked(wanting, pod, token=scoped_tokens(wanting)[0])
    assert status == 500
    assert "there is no decision" in str(answer)


def test_a_push_leaves_the_path_and_its_answers(wanting: Cluster) -> None:
    changed = EVERYTHING.model_copy(update={"contact": "#platform"})
    result = push.push(wanting, PolicySet.load(changed), progress=Progress())
    assert [warning for warning in result["warnings"] if "no decision" in warning] == []
    assert asked(wanting, REQUEST, token=scoped_tokens(wanting)[0])[0] == 200


def test_what_guards_it_is_compared_and_goes_with_the_rest(wanting: Cluster) -> None:
    """The last test: nothing is left of the deployment afterwards."""
    objects = wanting.objects()
    assert changed(wanting) == []
    guard = ("ValidatingAdmissionPolicyBinding", "fairlead-access")
    objects.delete(ADMISSION, *guard)
    assert changed(wanting) == [guard]
    deploy.deploy(wanting, PolicySet.load(WITHOUT), progress=Progress())
    assert objects.get(ADMISSION, "ValidatingAdmissionPolicy", "fairlead-access-bindings") is None
    # Without the kinds, the cluster would delete all transient bindings.
    kept = [each["metadata"]["name"] for each in objects.list(*EXTENSIONS)]
    assert len([name for name in kept if name.endswith(".access.fairlead.dev")]) == 2
    removed = uninstall.uninstall(wanting, progress=Progress())
    assert objects.list(*EXTENSIONS) == []
    assert objects.get("v1", "Namespace", NAMESPACE) is None
    assert removed.remaining == []

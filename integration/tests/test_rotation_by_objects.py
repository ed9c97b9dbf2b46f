"""Where the settings are an object, the controller rotates what a command, or an annotation, asks
for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from applied import fairlead_manifest, until_settings_are_in_force
from suspension import without_controller
from waits import until

from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import texts
from fairlead.common.digests import digest
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.kube.own_kinds import NAME, ROTATE, VERSION
from fairlead.operations import deploy, deployed_state, object_following, rotate
from fairlead.pki import certificates
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["two"]
pytestmark = pytest.mark.embedded("it kills the controller")

QUIET = Progress()
Object = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _deployed_again(cluster: EmbeddedCluster) -> Iterator[None]:
    """In the end, what files say is in force."""
    yield
    deploy.deploy(cluster, PolicySet.load(Settings()), progress=QUIET)


@pytest.fixture(autouse=True)
def fairlead(cluster: EmbeddedCluster) -> Iterator[None]:
    """The settings are an object during the test."""
    objects = cluster.objects()
    objects.apply(fairlead_manifest())
    until_settings_are_in_force(objects)
    yield
    objects.delete(VERSION, "Fairlead", NAME)


@pytest.fixture
def failing(
    objects: clients.Objects, new_namespace: Callable[..., str], pod: Callable[..., Object]
) -> Callable[[], str]:
    """Creates, as a dry run, a pod in a mapped namespace. Returns why that fails, or nothing."""
    at = new_namespace(agentpool="pool1")

    def outcome() -> str:
        try:
            created = objects.apply(pod(at), dry_run=True)
        except Refused as error:
            return str(error)
        return "" if created["spec"].get("nodeSelector") == {"agentpool": "pool1"} else "unplaced"

    return outcome


def credentials(objects: clients.Objects) -> Credentials:
    deployed = deployed_state.credentials(objects)
    assert deployed
    return deployed


def rotation(objects: clients.Objects) -> Object:
    """What the status says of the last rotation."""
    live = objects.get(VERSION, "Fairlead", NAME)
    return dict(((live or {}).get("status") or {}).get("rotation") or {})


def ask(objects: clients.Objects, request: str | None) -> None:
    objects.merge(fairlead_manifest(), {"metadata": {"annotations": {ROTATE: request}}})


def answer(objects: clients.Objects, request: str) -> Object:
    """What the controller says of the request in the end."""

    def ended() -> bool:
        last = rotation(objects)
        return last.get("request") == request and last["state"] != "Running"

    until(ended, what=f"the controller has ended {request}")
    return rotation(objects)


def test_a_command_has_the_controller_rotate(
    cluster: EmbeddedCluster, objects: clients.Objects, failing: Callable[[], str]
) -> None:
    before = credentials(objects)
    rotated = rotate.token(cluster, progress=QUIET)
    after = credentials(objects)
    assert before.token != after.token
    assert rotated == {"digest": digest(after.token.encode())} == rotation(objects)["result"]
    assert failing() == ""
    ended = rotate.certificate(cluster, progress=QUIET)
    renewed = credentials(objects)
    assert renewed.certificate != after.certificate
    assert ended == {"notAfter": texts.time(certificates.not_after(renewed.certificate))}
    assert failing() == ""
    reported = [
        event["message"]
        for event in objects.list("v1", "Event", NAMESPACE)
        if event["reason"] == "Rotated"
    ]
    assert {"token was rotated", "cert was rotated"} <= {*reported}


def test_what_cannot_be_rotated_is_refused_and_asked_for_once(
    cluster: EmbeddedCluster, objects: clients.Objects
) -> None:
    ask(objects, "nonsense 1")
    refused = answer(objects, "nonsense 1")
    assert refused["state"] == "Refused"
    assert "'nonsense' cannot be rotated: there are token, cert," in refused["message"]
    with pytest.raises(UsageError, match="has no token of the scope placement"):
        rotate.scoped_token(cluster, "placement", progress=QUIET)
    before = credentials(objects).token
    ask(objects, "token 2")
    assert answer(objects, "token 2")["state"] == "Done"
    once = credentials(objects).token
    ask(objects, "token 2")
    objects.apply(fairlead_manifest(contact="#ours"))
    until_settings_are_in_force(objects)
    assert before != once == credentials(objects).token


def test_a_rotation_goes_on_if_the_controller_is_killed(
    cluster: EmbeddedCluster, objects: clients.Objects, failing: Callable[[], str]
) -> None:
    before = credentials(objects)
    ask(objects, "cert 3")
    until(lambda: rotation(objects).get("request") == "cert 3", what="the rotation has begun")
    (controller,) = cluster.controllers()
    assert controller.pid
    os.kill(controller.pid, signal.SIGKILL)
    assert answer(objects, "cert 3")["state"] == "Done"
    after = credentials(objects)
    assert before.certificate != after.certificate
    assert before.ca not in after.ca
    assert failing() == ""


def test_without_a_controller_nothing_is_asked_for_any_more(
    cluster: EmbeddedCluster, objects: clients.Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = credentials(objects)
    monkeypatch.setattr(object_following, "_DEADLINE", 1.0)
    late = "the controller has begun: `fairlead status` says"
    with without_controller(cluster), pytest.raises(FairleadError, match=late):
        rotate.token(cluster, progress=QUIET)
    live = objects.get(VERSION, "Fairlead", NAME)
    assert live
    assert ROTATE not in (live["metadata"].get("annotations") or {})
    until_settings_are_in_force(objects)
    assert credentials(objects).token == before.token

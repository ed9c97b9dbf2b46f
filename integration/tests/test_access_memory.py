"""What tenants write does not take the memory that ends their access: the controller, and the
process beside it, run within the limits of their containers, at their start and later, beside
objects as large and as many as API servers take.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from access_world import GROUP, RBAC, RIGHTS, World, at, path
from applied import applied, namespace_manifest
from profiles import EVERYTHING
from waits import DEADLINE, until

from fairlead.access import instants, overdue, state
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.deployment import controller
from fairlead.deployment.names import ACCESS_ENDS, CONTROLLER
from fairlead.kube.clients import Objects
from fairlead.operations import deploy
from fairlead.policy.policy_set import PolicySet
from lab.fuzz import limits
from lab.fuzz.limits import MemoryLimit

PROFILES = ["everything"]
pytestmark = [pytest.mark.embedded("it limits the memory of processes"), pytest.mark.lab]

CROWD = "crowd"
EMOJI = "\U0001f600"
"""Four bytes for etcd and twelve in ASCII; a text with one takes four bytes for each character."""
LARGE, MANY = 12, state.OF_NAMESPACE + 100
_LABELS = 40_000
"""Labels so that an object has nearly the 1.5 MiB that etcd takes. Each is small, because many
small ones take the most memory when they are read."""


def transient(name: str, *, labels: int = 0, seconds: float = 3600) -> dict[str, Any]:
    """A transient binding by an administrator, as large as its schema and API servers allow."""
    subjects = [{"kind": "User", "name": f"{EMOJI * 40}{number}"} for number in range(100)]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "TransientRoleBinding",
        "metadata": {
            "name": name,
            "namespace": CROWD,
            "labels": {
                "crowd": "large" if labels else "many",
                **{f"l{number}": "" for number in range(labels)},
            },
            "annotations": {"a": EMOJI * 5_000} if labels else {},
        },
        "spec": {
            "validFrom": at(-1),
            "validUntil": at(seconds),
            "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": subjects if labels else subjects[:1],
            "reason": EMOJI * 1_024,
            "requestedBy": "fairlead-admin",
            "requestedByGroups": ["system:masters"],
        },
    }


def strangers_binding(name: str) -> dict[str, Any]:
    """A RoleBinding of megabytes, which everybody can write who may create one."""
    subjects = [{"kind": "User", "name": "a"} for _ in range(35_000)]
    subjects[0]["name"] = EMOJI
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "own", "uid": "u", "controller": True}
    place = {"name": name, "namespace": CROWD}
    metadata = {**place, "labels": {"controller-uid": "u"}, "ownerReferences": [owner]}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reader"}
    kinds = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding"}
    return {**kinds, "metadata": metadata, "roleRef": role, "subjects": subjects}


def patient(cluster: EmbeddedCluster) -> Objects:
    """A client that waits for a busy API server, which takes long for objects of this size."""
    return Objects(cluster.kubeconfig, timeout=(5.0, DEADLINE))


def create_all(objects: Objects, manifests: Iterator[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(objects.create, manifests))


def delete_all(objects: Objects, kind: str, prefix: str, number: int) -> None:
    group = GROUP if kind.startswith("Transient") else RBAC
    with ThreadPoolExecutor(3) as threads:
        names = [f"{prefix}-{each}" for each in range(number)]
        list(threads.map(lambda name: objects.delete(f"{group}/v1", kind, name, CROWD), names))


def change_some(objects: Objects) -> None:
    """Change large objects, so that watches tell of them again. Each takes API servers seconds, and
    a busy one gives up after a minute.
    """
    for number in range(2):
        until(
            lambda number=number: (
                objects.merge(  # type: ignore[misc]
                    transient(f"large-{number}"), {"metadata": {"labels": {"changed": ""}}}
                )
                or True
            ),
            "a large object is changed",
        )


@pytest.fixture(scope="module")
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    """The cluster without controllers, with objects of all sizes in one namespace."""
    objects = patient(cluster)
    with applied(objects, RIGHTS):
        objects.apply(namespace_manifest(CROWD))
        cluster.stop_server(CONTROLLER)
        cluster.stop_server(ACCESS_ENDS)
        create_all(objects, (transient(f"large-{n}", labels=_LABELS) for n in range(LARGE)))
        create_all(objects, (strangers_binding(f"stranger-{n}") for n in range(LARGE)))
        yield World(cluster)
        delete_all(objects, "TransientRoleBinding", "large", LARGE)
        delete_all(objects, "TransientRoleBinding", "many", MANY)
        delete_all(objects, "RoleBinding", "stranger", LARGE)
        deploy.deploy(cluster, PolicySet.load(EVERYTHING), progress=Progress())


@contextmanager
def confined(cluster: EmbeddedCluster, name: str) -> Iterator[MemoryLimit]:
    """Run the process of this name within the memory of its container."""
    argv, _ = cluster._remembered(f"{name}-started")
    (opa,) = cluster.opas()
    limit = MemoryLimit(name, controller.MEMORY[name] * 2**20)
    endpoint = next(part for part in argv if part.startswith("--health-endpoint="))
    ready = f"https://{endpoint.partition('=')[2]}/health"
    cluster.start_server(f"{name}-confined", limit.confined(argv), ready=ready, ca=opa.ca)
    try:
        yield limit
    finally:
        cluster.stop_server(f"{name}-confined")
        limit.close()


def require_one_life(world: World, name: str, limit: MemoryLimit) -> None:
    """The process was never killed, and never ended, for lack of memory."""
    server = world.cluster.servers()[f"{name}-confined"]
    assert (limit.kills, server["restarts"]) == (0, 0)
    assert limits.peak(server["pid"]) < limit.size


def test_access_ends_beside_objects_as_large_and_as_many_as_can_be(world: World) -> None:
    objects = patient(world.cluster)
    with confined(world.cluster, CONTROLLER) as limit:
        world.create_until("Granted", "early", 25)
        until(lambda: not world.can("early"), "it ends, and the controller has started")
        until(lambda: world.reason("early") == "Expired", "the status says so")
        require_one_life(world, CONTROLLER, limit)
        world.create_until("Granted", "late", 60)
        change_some(objects)
        create_all(objects, (transient(f"many-{number}") for number in range(MANY)))
        until(lambda: not world.can("late"), "it ends while objects are written")
        until(lambda: "Ended" in world.events("late"), "the controller has ended it")
        until(lambda: reasons(objects, "many")["TooMany"] >= 90, "too many are refused", 0.5)
        # A busy API server takes longer than the controller waits, so some may have no status yet.
        until(lambda: reasons(objects, "large")["TooLarge"], "large ones are refused", 0.5)
        assert reasons(objects, "large").keys() <= {"TooLarge", ""}
        require_one_life(world, CONTROLLER, limit)
        world.create("next", -1, 3600)
        until(lambda: world.can("next"), "other namespaces are not concerned")
        delete_all(objects, "TransientRoleBinding", "many", 150)
        until(lambda: not reasons(objects, "many")["TooMany"], "there is room again", 0.5)
        require_one_life(world, CONTROLLER, limit)
    assert world.users("boss", "DELETE", path("next")).ok


def reasons(objects: Objects, crowd: str) -> dict[str, int]:
    """How many transient bindings of this label are effective or not, by reason."""
    counts: Counter[str] = Counter()
    for value in objects.list(f"{GROUP}/v1", "TransientRoleBinding", CROWD, f"crowd={crowd}"):
        conditions = (value.get("status") or {}).get("conditions") or [{}]
        counts[conditions[0].get("reason", "")] += 1
    return counts


def test_access_ends_while_no_controller_runs(world: World) -> None:
    name, end = left_by_the_controller(world)
    uid = (world.binding("stays") or {})["metadata"]["uid"]
    with confined(world.cluster, ACCESS_ENDS) as limit:
        until(lambda: not world.can(name), "it ends")
        assert time.time_ns() > end + overdue.GRACE * instants.SECOND
        until(lambda: world.events(name)[-1] == "Ended", "the trail tells it")
        assert world.can("stays")
        require_one_life(world, ACCESS_ENDS, limit)
    assert (world.binding("stays") or {})["metadata"]["uid"] == uid
    assert world.users("boss", "DELETE", path("stays")).ok


def left_by_the_controller(world: World) -> tuple[str, int]:
    """The name and end, in nanoseconds, of a transient binding whose access began before the
    controller was stopped, and did not end before that: a busy machine needs a longer window.
    """
    for seconds in (20, 80, 320):
        name = f"left-{seconds}"
        with confined(world.cluster, CONTROLLER):
            if seconds == 20:
                world.create("stays", -1, 3600)
                until(lambda: world.can("stays"), "access begins")
            world.create_until("Granted", name, seconds)
            spec = world.users("boss", "GET", path(name)).body["spec"]
        if "Ended" not in world.events(name):
            return name, instants.nanoseconds(spec["validUntil"])
    raise AssertionError("the controller ended each before it was stopped")

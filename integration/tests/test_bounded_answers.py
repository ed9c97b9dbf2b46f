"""A client that reads so many bytes of an answer and no more lists and watches objects of any size,
and says what it leaves out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from applied import namespace_manifest
from waits import until

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.errors import TooLarge

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it writes megabytes")

NAMESPACE = "large-objects"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
SELECTOR = {"labelSelector": "large=x"}
MOST = 500_000
SIZES = (10, 100_000, 100_000, 300_000, 10, 700_000, 10)
"""Characters, each of which takes six bytes in JSON."""


def config_map(number: int, size: int) -> dict[str, Any]:
    metadata = {"name": f"c{number}", "namespace": NAMESPACE, "labels": {"large": "x"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"text": "<" * (size // 6)},
    }


@pytest.fixture(scope="module")
def api(cluster: BareCluster) -> Iterator[ApiRequests]:
    """A client of bounded answers, beside objects of SIZES bytes."""
    objects = cluster.objects()
    objects.apply(namespace_manifest(NAMESPACE))
    for number, size in enumerate(SIZES):
        objects.create(config_map(number, size))
    yield ApiRequests(cluster.kubeconfig, page=4, most=MOST)
    for number, _ in enumerate(SIZES):
        objects.delete("v1", "ConfigMap", f"c{number}", NAMESPACE)


def test_pages_shrink_to_what_is_read_and_what_is_larger_is_left_out(
    api: ApiRequests, caplog: pytest.LogCaptureFixture
) -> None:
    versions, left_out = list[str](), list[str]()
    with caplog.at_level(logging.WARNING):
        listed = list(
            api.collection(PATH, SELECTOR, version=versions.append, left_out=left_out.append)
        )
    assert left_out == [f"{NAMESPACE}/c5"]
    assert [value["metadata"]["name"] for value in listed] == ["c0", "c1", "c2", "c3", "c4", "c6"]
    assert {value["kind"] for value in listed} == {"ConfigMap"}
    assert len(set(versions)) == 1
    (warning,) = caplog.messages
    assert f"{NAMESPACE}/c5 is left out, as it has more than {MOST} bytes" in warning


def test_metadata_are_small_whatever_the_object_is(api: ApiRequests) -> None:
    listed = api.collection(PATH, SELECTOR, metadata_only=True)
    assert len(list(listed)) == len(SIZES)


def test_an_object_that_is_too_large_is_an_error_of_its_own(api: ApiRequests) -> None:
    with pytest.raises(TooLarge, match="more than 500000 bytes"):
        api.call("GET", f"{PATH}/c5")
    assert api.call("GET", f"{PATH}/c5", most=800_000)["metadata"]["name"] == "c5"
    with pytest.raises(TooLarge, match="more than 100 bytes"):
        api.call("GET", f"{PATH}/c0", most=100)
    patch = {"metadata": {"labels": {"sent": "x"}}}
    api.send(
        "PATCH", f"{PATH}/c5", patch, manager="test", content_type="application/merge-patch+json"
    )
    assert api.call("GET", f"{PATH}/c0")["data"], "the connection goes on"


def test_of_a_change_that_is_too_large_only_the_names_come_and_others_are_followed(
    cluster: BareCluster, api: ApiRequests, caplog: pytest.LogCaptureFixture
) -> None:
    objects, versions = cluster.objects(), list[str]()
    list(api.collection(PATH, SELECTOR, version=versions.append))
    seen: list[str] = []

    def follow() -> None:
        for kind, value in api.events(PATH, SELECTOR, versions[0], seconds=60):
            if kind != "BOOKMARK":
                seen.append(f"{kind} {value['metadata']['name']}")
            if seen[-1:] == ["MODIFIED c6"]:
                return

    with caplog.at_level(logging.WARNING):
        thread = Thread(target=follow, daemon=True)
        thread.start()
        for turn, number in enumerate((0, 5, 3, 5, 6)):
            change = {"metadata": {"annotations": {"again": str(turn)}}}
            objects.merge(config_map(number, 0), change)
        until(lambda: not thread.is_alive(), "the last change is seen")
    read, left_out = "MODIFIED", "LEFT_OUT"
    assert seen == [f"{read} c0", f"{left_out} c5", f"{read} c3", f"{left_out} c5", f"{read} c6"]
    assert any(f"a change of {NAMESPACE}/c5 is left out" in line for line in caplog.messages)

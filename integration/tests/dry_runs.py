"""Pods that are created by dry runs, and what an API server makes of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from waits import until

from fairlead.kube import clients
from fairlead.kube.errors import Refused

_PAUSE = 0.05
"""Seconds between two pods of a writer, in which the processors run what changes the policies."""


def pod(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def selector(objects: clients.Objects, manifest: dict[str, Any]) -> Any:
    """The nodeSelector that the API server gives a pod."""
    return objects.apply(manifest, dry_run=True)["spec"].get("nodeSelector")


@contextmanager
def writer(kubeconfig: Path) -> Iterator[list[Any]]:
    """Creates pods of the namespace `mapped` by dry runs all the time, one of them before the block
    and one after it. Yields the nodeSelectors that they get; refusals are left out.
    """
    selectors: list[Any] = []
    refused: list[bool] = []
    ended = threading.Event()

    def write() -> None:
        own = clients.Objects(kubeconfig)
        while not ended.wait(_PAUSE):
            try:
                selectors.append(selector(own, pod("mapped")))
            except Refused:
                refused.append(True)

    thread = threading.Thread(target=write)

    def wait_for_another() -> None:
        count = len(selectors) + len(refused)
        until(lambda: len(selectors) + len(refused) > count, what="another pod was sent")

    thread.start()
    try:
        wait_for_another()
        yield selectors
        wait_for_another()
    finally:
        ended.set()
        thread.join()

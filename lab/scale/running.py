"""Follows which pods run, by a watch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fairlead.kube.api_requests import BRIEF
from fairlead.kube.clients import Objects
from fairlead.kube.errors import ApiServerError
from lab.beside import Beside
from lab.scale.plan import Name

_PODS = "/api/v1/pods"
_SELECTED = {"fieldSelector": "status.phase=Running"}
"""By this selector, the watch has one event for each pod: when it begins to run."""
_SECONDS = 3600
_AGAIN = 0.2
"""Seconds until the next attempt after the API server ended the watch."""


class Running(Beside):
    """`since` has each pod that runs, and when that was seen first (seconds of the monotonic
    clock). It is kept up to date during the block.
    """

    def __init__(self, kubeconfig: Path) -> None:
        # The thread may wait for the next event while the API server has none.
        super().__init__(awaited=False)
        self.since: dict[Name, float] = {}
        self._api = Objects(kubeconfig, timeout=BRIEF)

    def _follow(self) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = self._watch(version or self._list())
            except ApiServerError:
                version = ""
                self._ended.wait(_AGAIN)

    def _list(self) -> str:
        """See all pods that run now; returns the version of the list. With 20,000 pods, the list
        keeps the API server busy for seconds, so it is made once, before there are any.
        """
        versions: list[str] = []
        for pod in self._api.collection(
            _PODS, _SELECTED, metadata_only=True, version=versions.append
        ):
            self._see(pod)
        return versions[-1]

    def _watch(self, version: str) -> str:
        """See the pods that begin to run after this version; returns the version from which to go
        on when the API server ends the watch.
        """
        for kind, pod in self._api.events(
            _PODS,
            _SELECTED,
            version,
            metadata_only=True,
            seconds=_SECONDS,
            on_open=lambda: None,
        ):
            version = pod["metadata"]["resourceVersion"]
            if kind == "ADDED":
                self._see(pod)
            if self._ended.is_set():
                break
        return version

    def _see(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self.since.setdefault((metadata["namespace"], metadata["name"]), time.monotonic())

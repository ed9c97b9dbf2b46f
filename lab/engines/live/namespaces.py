"""The namespaces of cases on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.engines.live.marker import Marker
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.responses import Response
from fairlead.policy.cases import Namespace

DELETION = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",  # otherwise a Job's pods would stay
}
_DEADLINE = 10.0
"""Seconds within which the API server and the engine must know changed labels. It takes
milliseconds."""

Knows = Callable[[str, Mapping[str, str]], bool]
"""Whether an engine knows exactly these labels of the namespace of that name."""


class Namespaces:
    """Creates, changes and removes namespaces as cases say."""

    def __init__(
        self, api: Objects, marker: Marker, engine_knows: Knows, *, looks_up: bool = True
    ) -> None:
        """An engine that `looks_up` what it does not know decides about a new namespace at once.
        One that does not asks to retry, until it knows.
        """
        self._api = api
        self._marker = marker
        self._engine_knows = engine_knows
        self._looks_up = looks_up
        self._settled: dict[str, dict[str, str]] = {}
        self._patience = _DEADLINE

    def set(self, namespace: Namespace | None) -> None:
        """Create or change the namespace as the case says, and wait until the API server and the
        engine know it, unless the case says otherwise. Raises FairleadError.
        """
        if namespace is None or self._settled.get(namespace.name) == namespace.labels:
            return
        self._settled.pop(namespace.name, None)
        if namespace.state != "known":
            self.remove(namespace.name)
            if namespace.state == "new":
                self.label(namespace.name, namespace.labels)
                if not self._looks_up:
                    self._wait_until_known(namespace.name, namespace.labels)
            return
        self.label(namespace.name, namespace.labels)
        self._wait_until_known(namespace.name, namespace.labels)
        self._settled[namespace.name] = dict(namespace.labels)

    def label(self, name: str, labels: Mapping[str, str]) -> None:
        """Create or relabel a namespace, so that it has exactly these labels."""
        self._settled.pop(name, None)
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": dict(labels)},
        }
        answer = self._api.request("PUT", path_of(manifest, None, name), manifest)
        if answer.status == 404:
            answer = self._api.request("POST", path_of(manifest, None), manifest)
            # A controller creates the service account soon. The API server refuses pods until then.
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
            }
            self._api.request("POST", path_of(account, name), account)
        needed(answer, f"setting the labels of namespace {name}")

    def _wait_until_known(self, name: str, labels: Mapping[str, str]) -> None:
        try:
            waiting.until(
                lambda: self._marker.knows(name, labels) and self._engine_knows(name, labels),
                deadline=self._patience,
                what=f"namespace {name} is known with its labels",
                pause=0.01,
            )
        except FairleadError:
            self._patience = 1.0  # it is not a matter of time, and every further case would wait
            raise

    def remove(self, name: str) -> None:
        """Remove a namespace, if there is one, and return when it is gone."""
        path = path_of({"apiVersion": "v1", "kind": "Namespace"}, None, name)
        if self._api.request("GET", path).ok:
            needed(self._api.request("DELETE", path, DELETION), f"deleting namespace {name}")
            wait_until_gone(self._api, path)


def needed(answer: Response, action: str) -> dict[str, Any]:
    """The body of an answer that has to be a success. Raises FairleadError."""
    if not answer.ok:
        raise FairleadError(f"{action}: the API server says {answer.status}: {answer.message}")
    return answer.body


def wait_until_gone(api: Objects, path: str) -> None:
    """Return when there is no object at `path`. Raises FairleadError."""
    waiting.until(
        lambda: api.request("GET", path).status == 404, deadline=60.0, what=f"{path} is gone"
    )

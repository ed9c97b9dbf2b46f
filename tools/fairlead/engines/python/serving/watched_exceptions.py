"""The exceptions of all namespaces, from a watch of the API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.engines.python.serving.metrics import WATCHED
from fairlead.kube.api_requests import BRIEF, MOST, SMALL_PAGE, ApiRequests
from fairlead.policy import exceptions
from fairlead.policy.exceptions import PolicyException
from fairlead.sync.desired import Source
from fairlead.sync.watches import Watch


class Exceptions:
    """What a watch has seen of all exceptions. Its thread writes, other threads may read."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Reads the credentials of `kubeconfig`, or of the pod. Raises UsageError."""
        self._by_namespace: dict[str, dict[str, PolicyException]] = {}
        api = ApiRequests(kubeconfig, timeout=BRIEF, page=SMALL_PAGE, most=MOST)
        source = Source("objects", resource=exceptions.RESOURCE)
        self._watch = Watch(api, source, {}, self, WATCHED)

    def start(self, stop: Event) -> None:
        """Begin to watch, in a thread of its own, until `stop` is set."""
        Thread(target=self._watch.run, args=(stop, lambda: None), daemon=True).start()

    def of(self, namespace: str) -> list[PolicyException]:
        """The exceptions of a namespace as the watch has seen them, also those that have ended."""
        return [*self._by_namespace.get(namespace, {}).values()]

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take a complete list."""
        by_namespace: dict[str, dict[str, PolicyException]] = {}
        for exception in exceptions.readable(objects):
            by_namespace.setdefault(exception.namespace, {})[exception.name] = exception
        self._by_namespace = by_namespace

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event."""
        namespace, name = value["metadata"]["namespace"], value["metadata"]["name"]
        of_namespace = {**self._by_namespace.get(namespace, {})}
        of_namespace.pop(name, None)
        if not removed:
            of_namespace |= {each.name: each for each in exceptions.readable([value])}
        self._by_namespace[namespace] = of_namespace

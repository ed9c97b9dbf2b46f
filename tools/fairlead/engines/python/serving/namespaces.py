"""The labels of namespaces: from a watch of the API server, or asked for at this moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.engines.python.serving.metrics import WATCHED
from fairlead.kube import live_namespaces
from fairlead.kube.api_requests import BRIEF, MOST, SMALL_PAGE, ApiRequests
from fairlead.sync.desired import Source
from fairlead.sync.watches import Watch

log = logging.getLogger(__name__)

Labels = Mapping[str, str]

_LARGEST = 4096
"""Characters of a namespace's labels that are kept. Users may write a megabyte: such labels are
looked up whenever they are asked for."""


class Namespaces:
    """What a watch has seen of all namespaces. Its thread writes, other threads may read."""

    def __init__(self, kubeconfig: Path | None) -> None:
        """Reads the credentials of `kubeconfig`, or of the pod. Raises UsageError."""
        self._labels: dict[str, Labels] = {}
        self._api = ApiRequests(kubeconfig, timeout=BRIEF, page=SMALL_PAGE, most=MOST)
        self._watch = Watch(self._api, Source("namespaces"), {}, self, WATCHED)

    def start(self, stop: Event) -> None:
        """Begin to watch, in a thread of its own, until `stop` is set."""
        Thread(target=self._watch.run, args=(stop, _nothing), daemon=True).start()

    @property
    def trouble(self) -> str | None:
        """Why the labels may be old or missing; None while the watch is open."""
        return self._watch.trouble

    def seen(self, name: str) -> Labels | None:
        """The labels as the watch has seen them; None for a namespace that it has not seen."""
        return self._labels.get(name)

    def look_up(self, name: str) -> Labels | None:
        """The labels at this moment; None if there is no such namespace or no answer."""
        try:
            live = live_namespaces.look_up(self._api, name)
        except FairleadError as error:
            log.warning("looking up namespace %s: %s", name, error)
            WATCHED.lookups.labels("failed").inc()
            self._api.renew()
            return None
        WATCHED.lookups.labels("found" if live else "absent").inc()
        return live.labels if live else None

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take a complete list."""
        self._labels = {name: labels for name, labels in map(_read, objects) if _is_kept(labels)}

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event."""
        name, labels = _read(value)
        if removed or not _is_kept(labels):
            self._labels.pop(name, None)
        else:
            self._labels[name] = labels


def _read(namespace: Mapping[str, Any]) -> tuple[str, Labels]:
    metadata = namespace["metadata"]
    return metadata["name"], metadata.get("labels") or {}


def _is_kept(labels: Labels) -> bool:
    return sum(len(key) + len(value) for key, value in labels.items()) <= _LARGEST


def _nothing() -> None:
    """The watch reports its progress to nobody."""

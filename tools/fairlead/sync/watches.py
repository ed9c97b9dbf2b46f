"""Follows one source at the API server: lists it once, then watches changes, and resumes a watch
that ended."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Event
from typing import Any, Protocol

from prometheus_client import Counter

from fairlead.common.errors import FairleadError
from fairlead.kube.api_requests import LEFT_OUT, ApiRequests
from fairlead.kube.errors import ApiServerError
from fairlead.sync import loops
from fairlead.sync.desired import Source

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds without a watch after which the source counts as lost. A watch ends every minute or so
anyway and is resumed."""

SECONDS = (40, 60)
"""The shortest and longest time of one watch request. It is short, so that a dead connection cannot
hide changes for long."""

_LEAST = 3
"""The least seconds of a watch request."""


def seconds(max_staleness: int | None) -> tuple[int, int]:
    """The shortest and longest time of watch requests with which each source is confirmed well
    within `max_staleness` seconds.
    """
    if max_staleness is None:
        return SECONDS
    longest = max(_LEAST, min(SECONDS[1], max_staleness // 3))
    return max(_LEAST, min(SECONDS[0], longest * 2 // 3)), longest


class Follower(Protocol):
    """What takes the objects of a source, such as fairlead.sync.desired.Desired."""

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of the source."""

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event."""


class Counters(Protocol):
    """The metrics of a watch."""

    @property
    def relists(self) -> Counter:
        """Complete lists."""

    @property
    def errors(self) -> Counter:
        """Failed requests, by peer."""


class Watch:
    """Updates the desired state from one source. One thread calls `run`; other threads may read
    the attributes.
    """

    def __init__(
        self,
        api: ApiRequests,
        source: Source,
        selector: Mapping[str, str],
        desired: Follower,
        metrics: Counters,
        *,
        seconds: tuple[int, int] = SECONDS,
        again: Callable[[], Any] = lambda: False,
    ) -> None:
        """`selector` has a labelSelector, a fieldSelector or both; an empty one selects everything.

        `seconds` are the shortest and longest time of a watch request. `again` says whether the
        source has to be listed again when a request has ended.
        """
        self.left_out: set[str] = set()
        """The objects that are too large for the client, as <namespace>/<name>. They count as
        absent. Their names are here before they are, and until they are there again."""
        self.confirmed: float | None = None
        """The time up to which the state of this source is known (time.monotonic), None before its
        first list.

        It is the time of the last list, event or bookmark, or of a watch's regular end. If nothing
        changes, the API server may send no bookmark, and an open watch confirms nothing, because
        its connection may be dead.
        """
        self.source = source
        self._api = api
        self._selector = selector
        self._desired = desired
        self._metrics = metrics
        self._seconds = seconds
        self._again = again
        self._version: str | None = None
        self._away_since: float | None = time.monotonic()
        self._error: str | None = "not listed yet"
        self._path = path(source)

    @property
    def trouble(self) -> str | None:
        """Why changes of this source may be missing; None while it is followed."""
        away, error = self._away_since, self._error
        if away is None or (self._version is not None and time.monotonic() - away < GRACE):
            return None
        return f"{self.source}: {error or 'not followed'}"

    def run(self, stop: Event, turn: Callable[[], None]) -> None:
        """Follow the source until `stop` is set. Failures are logged and retried."""
        loops.repeat(self.follow, stop, self._failed, turn=turn, longest=3.0)

    def follow(self) -> None:
        """List the source if there is no version to resume from, and watch it once. Raises
        ApiServerError if the watch breaks off.
        """
        fresh = self._version is None
        if self._version is None:
            self._version = self._list()
        began = time.monotonic()
        try:
            self._watch(self._version)
        except ApiServerError as error:
            if error.gone:
                self._version = None
            if fresh or not error.gone:
                raise
            log.info("%s: %s: listing again", self.source, error)
            return
        finally:
            self._away_since = self._away_since or time.monotonic()
        if time.monotonic() - began < 1.0:
            raise ApiServerError("the watch ended as soon as it began")
        self.confirmed = time.monotonic()
        if self._again():
            self._version = None

    def _list(self) -> str:
        """Replace all objects of the source, and return the list's resourceVersion. Raises
        ApiServerError if the list fails.
        """
        version, began = "", time.monotonic()
        left_out: set[str] = set()

        def on_version(resource_version: str) -> None:
            nonlocal version
            version = resource_version

        def on_left_out(name: str) -> None:
            left_out.add(name)
            self.left_out = self.left_out | {name}

        objects = self._api.collection(
            self._path,
            self._selector,
            metadata_only=self._thin,
            version=on_version,
            left_out=on_left_out,
        )
        try:
            self._desired.replace(self.source, objects)
        except ApiServerError as error:
            if error.status == 404 and self.source.resource:
                # The cluster does not know this kind, so there are no objects of it.
                self._desired.replace(self.source, [])
                self.confirmed = began
            raise
        self.confirmed, self.left_out = began, left_out
        self._metrics.relists.inc()
        return version

    def _watch(self, resource_version: str) -> None:
        events = self._api.events(
            self._path,
            self._selector,
            resource_version,
            metadata_only=self._thin,
            seconds=random.randint(*self._seconds),  # noqa: S311 - spreads requests, keeps no secret
            on_open=self._opened,
        )
        for type_, value in events:
            if type_ != "BOOKMARK":
                self._apply(type_, value)
            version = value["metadata"].get("resourceVersion", resource_version)
            if _older(version, resource_version):
                raise ApiServerError(
                    f"resourceVersion {version} after {resource_version}: the cluster was restored",
                    410,
                )
            self._version = resource_version = version
            # Last: whoever reads `confirmed` and then the desired state must see all events.
            self.confirmed = time.monotonic()

    def _apply(self, type_: str, value: Mapping[str, Any]) -> None:
        """Take one event. An object that has become too large is forgotten: what was known of it
        is not true any more.
        """
        metadata = value["metadata"]
        name = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        if type_ == LEFT_OUT:
            self.left_out = self.left_out | {name}
        self._desired.apply(self.source, type_ in ("DELETED", LEFT_OUT), value)
        if type_ != LEFT_OUT:
            self.left_out = self.left_out - {name}

    @property
    def _thin(self) -> bool:
        resource = self.source.resource
        return resource.metadata_only if resource else self.source.kind == "namespaces"

    def _opened(self) -> None:
        if self._error:
            log.info("%s: followed", self.source)
        self._away_since = self._error = None

    def _failed(self, error: BaseException) -> None:
        self._metrics.errors.labels("kubernetes").inc()
        self._away_since = self._away_since or time.monotonic()
        if not isinstance(error, FairleadError):
            log.error("%s: following failed", self.source, exc_info=error)
        elif str(error) != self._error:
            log.warning("%s: %s", self.source, error)
        self._error = str(error) or type(error).__name__
        self._api.renew()


def path(source: Source) -> str:
    """The path under which the API server lists the source."""
    if source.resource:
        return source.resource.path
    if source.kind == "namespaces":
        return "/api/v1/namespaces"
    return (
        f"/api/v1/namespaces/{source.namespace}/configmaps"
        if source.namespace
        else "/api/v1/configmaps"
    )


def _older(version: str, than: str) -> bool:
    """Whether a resourceVersion is older than another. They are comparable numbers (KEP-5504), and
    within one watch they only grow.
    """
    return version.isdigit() and than.isdigit() and int(version) < int(than)

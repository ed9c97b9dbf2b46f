"""Follows one source: lists it once, then watches every change, and resumes where a watch broke
off."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from threading import Event

from fairlead.common.errors import FairleadError
from fairlead.kube.apiserver import ApiServer
from fairlead.kube.errors import ApiServerError
from fairlead.sync import loops
from fairlead.sync.desired import Desired, Source
from fairlead.sync.metrics import Metrics

log = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds that a watch may be away before it counts as lost: it ends every minute or so anyway,
and is resumed."""

SECONDS = (40, 60)
"""How long one watch request lasts; short, so that a connection that died unnoticed cannot hide
changes for long."""

_LEAST = 3
"""Seconds that one lasts at least."""


def seconds(max_staleness: int | None) -> tuple[int, int]:
    """How long watch requests last so that each source is confirmed well within `max_staleness`
    seconds.
    """
    if max_staleness is None:
        return SECONDS
    longest = max(_LEAST, min(SECONDS[1], max_staleness // 3))
    return max(_LEAST, min(SECONDS[0], longest * 2 // 3)), longest


class Watch:
    """Follows one source into the desired state; `run` belongs to one thread, the rest is safe
    for others to read.
    """

    def __init__(
        self,
        api: ApiServer,
        source: Source,
        selector: Mapping[str, str],
        desired: Desired,
        metrics: Metrics,
        *,
        seconds: tuple[int, int] = SECONDS,
    ) -> None:
        """`selector` has a labelSelector, a fieldSelector or both; what is empty selects all.

        A watch request lasts `seconds` at least and at most.
        """
        self.confirmed: float | None = None
        """Up to when all is known of this source (time.monotonic), None before its first list.

        That is its last list, event or bookmark, or the end of a watch by the API server's own
        word: where nothing changes it sends no bookmark, and that a watch is open may be because
        its connection is dead.
        """
        self.source = source
        self._api = api
        self._selector = selector
        self._desired = desired
        self._metrics = metrics
        self._seconds = seconds
        self._version: str | None = None
        self._away_since: float | None = time.monotonic()
        self._error: str | None = "not listed yet"
        self._path = _path(source)

    @property
    def trouble(self) -> str | None:
        """Why news of this source may be missing; None while it is followed."""
        away, error = self._away_since, self._error
        if away is None or (self._version is not None and time.monotonic() - away < GRACE):
            return None
        return f"{self.source}: {error or 'not followed'}"

    def run(self, stop: Event, turn: Callable[[], None]) -> None:
        """Follow until `stop` is set; a failure is told and tried again."""
        loops.repeat(self.follow, stop, self._failed, turn=turn, longest=3.0)

    def follow(self) -> None:
        """One list, where there is none to go on from, and one watch. Raises ApiServerError when
        it breaks off.
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

    def _list(self) -> str:
        """Replace all that is known, and tell the resourceVersion. Raises ApiServerError."""
        version, began = "", time.monotonic()

        def read(resource_version: str) -> None:
            nonlocal version
            version = resource_version

        objects = self._api.objects(
            self._path, self._selector, metadata_only=self._thin, version=read
        )
        try:
            self._desired.replace(self.source, objects)
        except ApiServerError as error:
            if error.status == 404 and self.source.resource:
                # of a kind that the cluster does not know there are none
                self._desired.replace(self.source, [])
                self.confirmed = began
            raise
        self.confirmed = began
        self._metrics.relists.inc()
        return version

    def _watch(self, since: str) -> None:
        events = self._api.events(
            self._path,
            self._selector,
            since,
            metadata_only=self._thin,
            seconds=random.randint(*self._seconds),  # noqa: S311 - spreads requests, keeps no secret
            opened=self._opened,
        )
        for type_, value in events:
            if type_ != "BOOKMARK":
                self._desired.apply(self.source, type_ == "DELETED", value)
            version = value["metadata"]["resourceVersion"]
            if _older(version, since):
                raise ApiServerError(
                    f"resourceVersion {version} after {since}: the cluster was restored", 410
                )
            self._version = since = version
            # last, as who reads it first and what is desired then has all of it
            self.confirmed = time.monotonic()

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


def _path(source: Source) -> str:
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
    """Whether a resourceVersion goes back, which one watch never does (KEP-5504 makes them
    comparable numbers).
    """
    return version.isdigit() and than.isdigit() and int(version) < int(than)

"""Takes word back to the ConfigMaps: an annotation says whether OPA holds what they say, in kube-mgmt's form."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from fairlead.sync import loop
from fairlead.sync.apiserver import ApiServer, ApiServerError
from fairlead.sync.desired import STATUS, Desired, Owner
from fairlead.sync.metrics import Metrics
from fairlead.sync.problem import Problem

log = logging.getLogger(__name__)

_LONGEST = 1000  # characters of one message: OPA quotes whole lines, and all annotations share 256 KiB
_MOST = 10  # errors of one policy
_AGAIN = (1.0, 60.0)  # seconds until an annotation that someone else changes is set again, doubling from the first


def text(problems: Sequence[Problem]) -> str:
    """The annotation: {"status": "ok"}, or {"status": "error", "error": ...} with one problem or a list of several."""
    if not problems:
        return _compact({"status": "ok"})
    short = [_short(problem) for problem in problems]
    return _compact({"status": "error", "error": short[0] if len(short) == 1 else short})


class StatusWriter:
    """Annotates ConfigMaps; `run` belongs to one thread, so that a slow API server never delays OPA."""

    def __init__(self, api: ApiServer, desired: Desired, metrics: Metrics) -> None:
        self._api = api
        self._desired = desired
        self._metrics = metrics
        self._news = Event()
        self._wanted: dict[Owner, str] = {}
        self._written: dict[Owner, _Written] = {}

    def report(self, problems: Mapping[Owner, list[Problem]]) -> None:
        """Take what is wrong with each ConfigMap that has been settled; nothing, where nothing is."""
        self._wanted = {owner: text(found) for owner, found in problems.items()}
        self._news.set()

    def run(self, stop: Event) -> None:
        """Write until `stop` is set; what fails is told and tried again."""
        loop.repeat(self.write, stop, self._failed, longest=5.0)

    def write(self) -> None:
        """Wait for a report, a second at most, and annotate. Raises ApiServerError once all have been tried."""
        self._news.wait(1.0)
        self._news.clear()
        wanted, failed = self._wanted, None
        self._written = {owner: before for owner, before in self._written.items() if owner in wanted}
        for owner, status in wanted.items():
            try:
                self._annotate(owner, status)
            except ApiServerError as error:
                failed = error
        if failed:
            raise failed

    def _failed(self, error: BaseException) -> None:
        self._metrics.errors.labels("kubernetes").inc()
        if isinstance(error, ApiServerError):
            log.warning("no status could be written: %s", error)
        else:
            log.error("writing status failed", exc_info=error)

    def _annotate(self, owner: Owner, status: str) -> None:
        """Annotate, unless the ConfigMap says so already or has just been told so."""
        config_map = self._desired.config_map(owner)
        if config_map is None or config_map.status == status:
            return
        before = self._written.get(owner)
        if before and before.status == status:
            if config_map.resource_version == before.seen or time.monotonic() < before.again_at:
                return
            delay = min(2 * before.delay, _AGAIN[1])
        else:
            delay = _AGAIN[0]
        try:
            self._api.annotate(*owner, config_map.resource_version, {STATUS: status})
        except ApiServerError as error:
            if error.status not in (404, 409):
                raise
            return  # it has changed or is gone: the watch brings what it is now
        self._written[owner] = _Written(status, config_map.resource_version, time.monotonic() + delay, delay)
        log.info("status of %s: %s", "/".join(owner), status)


class _Written:
    """What was written last: for which resourceVersion, and when it may be written again."""

    __slots__ = ("again_at", "delay", "seen", "status")

    def __init__(self, status: str, seen: str, again_at: float, delay: float) -> None:
        self.status = status
        self.seen = seen
        self.again_at = again_at
        self.delay = delay


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[:_LONGEST] + "..."
    if isinstance(value, list):
        return [_short(part) for part in value[:_MOST]]
    if isinstance(value, dict):
        return {key: _short(part) for key, part in value.items()}
    return value

"""Writes the status of each ConfigMap into its annotations, in kube-mgmt's form.

Each replica writes its own annotation and, in the same request, the shared annotation. The shared
one is computed from those of all replicas, so every replica would write the same text, and none
overwrites another's.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from fairlead.common import texts
from fairlead.deployment.names import REPLICA_STATUS, RETRIES, STATUS
from fairlead.kube import api_paths
from fairlead.kube.api_requests import MERGE, ApiRequests
from fairlead.kube.errors import ApiServerError
from fairlead.sync import config_maps, loops
from fairlead.sync.config_maps import Annotations, ConfigMap, Owner, Verdict
from fairlead.sync.desired import Desired
from fairlead.sync.metrics import Metrics
from fairlead.sync.policy_problems import Problem

log = logging.getLogger(__name__)

_LONGEST = 1000  # characters of one message: OPA quotes whole lines
_MOST = 10  # errors of one policy
# characters of an annotation with several errors: all annotations of an object share 256 KiB
_LARGEST = 8192
# seconds until an annotation that someone else changes is set again, doubling from the first
_AGAIN = (1.0, 60.0)
_PAUSE = (0.05, 0.25)  # seconds to wait after another replica changed the ConfigMap first
_USUAL = (3.0, 10.0)  # seconds to connect and to wait for an answer
_ENDING = (1.0, 2.0)  # the same when the process ends


def text(problems: Sequence[Problem], **fields: str) -> str:
    """The text of an annotation: {"status": "ok"}, or {"status": "error", "error": ...} with one
    problem or a list of several. `fields` adds fields.
    """
    short = [_short(problem) for problem in problems[:_MOST]]
    while True:
        error = {"error": short[0] if len(short) == 1 else short} if short else {}
        document = json.dumps(
            {"status": "error" if short else "ok", **error, **fields},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        if len(document) <= _LARGEST or len(short) < 2:
            return document
        short.pop()


def overall(replicas: Mapping[str, str]) -> str:
    """The text of the shared annotation, computed from those of the replicas: an error if any
    replica reports one.
    """
    problems: list[Problem] = []
    for _, annotation in sorted(replicas.items()):
        error = _entry(annotation).get("error")
        errors = error if isinstance(error, list) else [error] if error else []
        problems += [problem for problem in errors if problem not in problems]
    return text(problems)


def replica(name: str) -> str:
    """`name` as a part of an annotation's key. If it is not legal there, its legal characters and
    a digest.
    """
    legal = re.sub(r"[^A-Za-z0-9_.-]", "-", name).strip("_.-")
    if name and legal == name and len(name) <= 63:
        return name
    return f"{legal[:50].rstrip('_.-')}-{hashlib.sha256(name.encode()).hexdigest()[:12]}".lstrip(
        "-"
    )


class StatusWriter:
    """Writes the status of ConfigMaps for one replica. `run` has its own
    thread, so that a slow API server never delays OPA.
    """

    def __init__(self, api: ApiRequests, desired: Desired, metrics: Metrics, replica: str) -> None:
        """`replica` is a name that no other replica has, as the function `replica` returns it."""
        self._api = api
        self._desired = desired
        self._metrics = metrics
        self._own = REPLICA_STATUS + replica
        self._news = Event()
        self._pause = 1.0
        self._wanted: dict[Owner, Verdict] = {}
        self._seen: dict[Owner, str] = {}
        self._written: dict[tuple[Owner, frozenset[str]], _Written] = {}
        self._found: dict[Owner, dict[str, str]] = {}
        self._pairs: set[tuple[Owner, str]] = set()

    def report(self, verdicts: Mapping[Owner, Verdict]) -> None:
        """Take the verdict on each ConfigMap that OPA has accepted or rejected."""
        if verdicts != self._wanted:
            self._wanted = dict(verdicts)
            self._news.set()

    def run(self, stop: Event, turn: Callable[[], None]) -> None:
        """Write statuses until `stop` is set, then remove those of this replica. Failures are
        logged and retried.
        """
        loops.repeat(self.write, stop, self._failed, turn=turn, longest=5.0)
        self.retire()

    def wake(self) -> None:
        """End the wait for a report."""
        self._news.set()

    def write(self) -> None:
        """Wait for a report, at most a second, and annotate ConfigMaps. Tries all of them, and
        raises ApiServerError if any failed.
        """
        self._news.wait(self._pause)
        self._news.clear()
        self._pause = 1.0
        verdicts, failed = self._wanted, None
        self._forget(verdicts)
        for owner, verdict in verdicts.items():
            config_map = self._desired.config_map(owner)
            if config_map is None or config_map.fingerprint != verdict.fingerprint:
                continue
            try:
                self._annotate(config_map, text(verdict.problems, of=verdict.fingerprint))
            except ApiServerError as error:
                failed = error
        if failed:
            raise failed

    def retire(self) -> None:
        """Remove this replica's annotations without retries: its OPA ends at the same time."""
        for owner in self._wanted:
            try:
                self._take_back(owner)
            except ApiServerError as error:
                if error.status != 404:
                    log.warning("the status of this replica could not be removed: %s", error)
                    return

    def _take_back(self, owner: Owner) -> None:
        """Remove this replica's annotation. Reads the ConfigMap first, because the watch may not
        show the latest write yet.
        """
        config_map = self._desired.config_map(owner)
        if config_map is None:
            return
        for last in (False, False, True):
            value = self._api.call("GET", _path(config_map), timeout=_ENDING)
            live = config_maps.read(config_map.owner, config_map.kind, value)
            if self._own not in live.annotations:
                return
            statuses = self._others(live)
            changes: Annotations = {self._own: None, **_shared(live, statuses)}
            try:
                self._change(live, changes, _ENDING)
            except ApiServerError as error:
                if error.status != 409 or last:
                    raise
            else:
                return

    def _change(
        self, config_map: ConfigMap, changes: Annotations, timeout: tuple[float, float]
    ) -> None:
        """Change annotations, if the ConfigMap has not changed since it was read. Raises
        ApiServerError.
        """
        metadata = {"annotations": changes, "resourceVersion": config_map.resource_version}
        self._api.call(
            "PATCH",
            _path(config_map),
            {"metadata": metadata},
            manager="fairlead-sync",
            content_type=MERGE,
            timeout=timeout,
        )

    def _forget(self, verdicts: Mapping[Owner, Verdict]) -> None:
        """Forget what was written about ConfigMaps that are gone or whose data have changed."""
        pairs = {(owner, verdict.fingerprint) for owner, verdict in verdicts.items()}
        if pairs != self._pairs:
            self._pairs = pairs
            owners = {owner for owner, _ in pairs}
            self._seen = {
                owner: version for owner, version in self._seen.items() if owner in owners
            }
            self._found = {
                owner: annotations for owner, annotations in self._found.items() if owner in owners
            }
            self._written = {}

    def _failed(self, error: BaseException) -> None:
        self._metrics.errors.labels("kubernetes").inc()
        if isinstance(error, ApiServerError):
            log.warning("a status could not be written: %s", error)
        else:
            log.error("writing status failed", exc_info=error)

    def _others(self, config_map: ConfigMap) -> dict[str, str]:
        """The reports of the other replicas that count."""
        return {
            key: value
            for key, value in config_map.annotations.items()
            if key not in (STATUS, RETRIES, self._own)
            and _entry(value).get("of") == config_map.fingerprint
        }

    def _annotate(self, config_map: ConfigMap, status: str) -> None:
        """Write the annotations of a ConfigMap, unless it has them already or they have just been
        written.

        A replica that restarted first removes the other replicas' annotations that it found at its
        start. Replicas that still run write theirs again at once, and those of replicas that are
        gone do not come back.
        """
        owner = config_map.owner
        annotations = self._found.setdefault(owner, dict(config_map.annotations))
        statuses = self._others(config_map)
        if self._own not in config_map.annotations and owner not in self._seen:
            statuses = {
                key: value for key, value in statuses.items() if annotations.get(key) != value
            }
        changes: Annotations = {key: None for key in config_map.annotations if key not in statuses}
        changes |= {self._own: status}
        changes |= _shared(config_map, {**statuses, self._own: status})
        changes = {
            key: value for key, value in changes.items() if config_map.annotations.get(key) != value
        }
        if not changes or self._seen.get(owner) == config_map.resource_version:
            return
        attempt = owner, frozenset({status, *statuses.values(), *statuses})
        before = self._written.get(attempt)
        if before and time.monotonic() < before.again_at:
            return
        try:
            self._change(config_map, changes, _USUAL)
        except ApiServerError as error:
            if error.status not in (404, 409):
                raise
            # The ConfigMap has changed or is gone, and the watch will bring its current state.
            self._pause = random.uniform(*_PAUSE)  # noqa: S311 - spreads replicas, keeps no secret
            return
        delay = min(2 * before.delay, _AGAIN[1]) if before else _AGAIN[0]
        self._written[attempt] = _Written(time.monotonic() + delay, delay)
        self._seen[owner] = config_map.resource_version
        log.info("status of %s: %s", "/".join(owner), status)


@dataclass(frozen=True, slots=True)
class _Written:
    """When the same status may be written again (time.monotonic), which is needed only if somebody
    undoes it.
    """

    again_at: float
    delay: float


def _shared(config_map: ConfigMap, replicas: Mapping[str, str]) -> Annotations:
    """The annotations that follow from those of all replicas."""
    if not replicas:
        return {}
    # kube-mgmt's value for policies that it does not retry by itself
    retries = {RETRIES: "0"} if config_map.kind == "policies" else {}
    return {STATUS: overall(replicas), **retries}


def _path(config_map: ConfigMap) -> str:
    namespace, name = config_map.owner
    return api_paths.joined("v1", namespace, "configmaps", name)


def _entry(text: str) -> dict[str, Any]:
    """A replica's annotation, parsed; empty if it is malformed."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(entry, dict) or entry.get("status") not in ("ok", "error"):
        return {}
    return entry if (entry["status"] == "error") == ("error" in entry) else {}


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return texts.shortened(value, _LONGEST)
    if isinstance(value, list):
        return [_short(part) for part in value[:_MOST]]
    if isinstance(value, dict):
        return {key: _short(part) for key, part in value.items()}
    return value

"""Takes waiting reviews, asks both engines about them, and counts where their answers differ."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.deployment.names import CEL_ENGINE, PYTHON_ENGINE
from fairlead.engines import disagreements
from fairlead.engines.disagreements import Answer
from fairlead.engines.python import reviews
from fairlead.engines.serving.namespaces import Labels, Namespaces
from fairlead.engines.shadow import metrics
from fairlead.engines.shadow.answers import Asked, Cel, Opa, Python
from fairlead.engines.shadow.deployed import Deployed, Deployment
from fairlead.engines.shadow.report import Report
from fairlead.engines.shadow.waiting import AGAIN, SETTLED, Queue, Waiting
from fairlead.kube.clients import BRIEF, Objects
from fairlead.sync import loops

log = logging.getLogger(__name__)

BATCH = 200
"""The most reviews that are asked about at once."""
_WAIT = 1.0
"""Seconds for which the first review of a batch is waited for."""
HUNG = 180.0
"""Seconds after which a batch takes too long, whatever the engines do."""


class Comparing:
    """Compares the two engines that are deployed, in a thread of its own."""

    def __init__(self, kubeconfig: Path | None, opa_url: str, opa_ca: Path, matcher: Path) -> None:
        """Raises UsageError if the kubeconfig cannot be used."""
        self.queue = Queue()
        self.report = Report(Objects(kubeconfig, timeout=BRIEF))
        self._namespaces = Namespaces(kubeconfig, metrics.WATCHED)
        self._deployed = Deployed(kubeconfig, self._begin)
        self._opa = Opa(opa_url, opa_ca)
        self._cel = Cel(Objects(kubeconfig, timeout=BRIEF), matcher)
        self._turned = time.monotonic()
        self._settled = 0.0

    def start(self, stop: Event) -> None:
        """Begin, until `stop` is set."""
        self._namespaces.start(stop)
        self._deployed.start(stop)
        Thread(target=self._run, args=(stop,), daemon=True).start()

    @property
    def hung(self) -> bool:
        """Whether the thread has not made progress for too long."""
        return time.monotonic() > self._turned + HUNG

    def tell(self, intent: str, review: Any, size: int) -> None:
        """Have the engines compared by this review of so many bytes."""
        current = self._deployed.current
        if current is None or intent not in current.objects or any(reviews.problems(review)):
            return
        if not self.queue.put(Waiting(intent, review, size)):
            self.report.skipped(intent)

    def step(self) -> None:
        """Compare a batch, and report."""
        batch = self.queue.take(BATCH, _WAIT)
        current = self._deployed.current
        by_intent: dict[str, list[Waiting]] = {}
        for waiting in batch:
            by_intent.setdefault(waiting.intent, []).append(waiting)
        for intent, several in by_intent.items():
            if current and intent in current.objects:
                self._compare(current, intent, several)
        self.report.write(self._deployed.trouble or self._namespaces.trouble)

    def _run(self, stop: Event) -> None:
        loops.repeat(self.step, stop, _failed, turn=self._turn, longest=3.0)

    def _turn(self) -> None:
        self._turned = time.monotonic()

    def _begin(self, deployment: Deployment) -> None:
        if self.report.begin(deployment.engines, deployment.revision):
            self._settled = time.monotonic() + SETTLED

    def _compare(self, current: Deployment, intent: str, several: Sequence[Waiting]) -> None:
        if any(waiting.again for waiting in several):
            self._cel.forget()
        self._cel.deployment = current
        namespaces = self._labels(several)
        asked = [waiting.review for waiting in several]
        enforcing, shadow = (
            [*_answers(self._engine(current, name), intent, asked, namespaces)]
            for name in (current.engines.enforcing, str(current.engines.shadow))
        )
        for waiting, one, other in zip(several, enforcing, shadow, strict=True):
            self._count(waiting, one, other)

    def _count(self, waiting: Waiting, enforcing: Answer, shadow: Answer) -> None:
        """Count one review. If the answers differ, or one is missing, the engines are asked again
        later: one of them may not have learned of a change.
        """
        found = disagreements.between(enforcing, shadow)
        if found is None:
            self.report.agreed(waiting.intent)
            return
        due = max(time.monotonic() + AGAIN, self._settled)
        unsettled = time.monotonic() < self._settled
        if unsettled or not waiting.again:
            if self.queue.put(replace(waiting, again=True, due=due)):
                return
            self.report.skipped(waiting.intent)
        elif None in (enforcing.allowed, shadow.allowed):
            failure = enforcing if enforcing.allowed is None else shadow
            self.report.failed(waiting.intent, failure.message)
        else:
            self.report.disagreed(waiting.intent, waiting.review, found, enforcing, shadow)

    def _engine(self, current: Deployment, name: str) -> Asked:
        if name == CEL_ENGINE:
            return self._cel
        if name == PYTHON_ENGINE and current.python:
            return Python(current.python)
        return self._opa

    def _labels(self, several: Sequence[Waiting]) -> Mapping[str, Labels]:
        """The labels of all namespaces of these reviews. Those that were not seen, and those of
        reviews that wait again, are asked for.
        """
        labels = {}
        for waiting in several:
            name = reviews.namespace(waiting.review)
            if not name or (name in labels and not waiting.again):
                continue
            seen = None if waiting.again else self._namespaces.seen(name)
            labels[name] = self._namespaces.look_up(name) if seen is None else seen
        return {name: found for name, found in labels.items() if found is not None}


def _answers(
    engine: Asked, intent: str, asked: Sequence[Any], namespaces: Mapping[str, Labels]
) -> Iterator[Answer]:
    """An answer to each review. If the engine gives none, it is not asked about the rest."""
    given = 0
    try:
        for answer in engine.answers(intent, asked, namespaces):
            given += 1
            yield answer
    except (FairleadError, OSError, ValueError, KeyError) as error:
        log.warning("%s: %s", intent, error)
        yield from (Answer(None, str(error)) for _ in asked[given:])


def _failed(error: BaseException) -> None:
    log.error("comparing failed", exc_info=error)

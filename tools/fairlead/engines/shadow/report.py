"""What was compared, counted by intent, with an example of each kind of disagreement. A ConfigMap
has the report, for `fairlead status`.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from fairlead.common import texts
from fairlead.deployment.names import NAMESPACE, SHADOW
from fairlead.deployment.shadowing import REPORT, Engines
from fairlead.engines import disagreements
from fairlead.engines.disagreements import Answer, Disagreement
from fairlead.engines.shadow import masking, metrics
from fairlead.kube import admission_reviews
from fairlead.kube.clients import MERGE, Objects
from fairlead.kube.errors import ApiServerError

log = logging.getLogger(__name__)

PAUSE = 5.0
"""Seconds between two reports, at least."""
BEAT = 60.0
"""Seconds between two reports if nothing changes."""
AGREED, FAILED, SKIPPED = "agreed", "failed", "skipped"
_PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{SHADOW}"


@dataclass
class _Counts:
    """What became of the reviews for one intent: `outcomes` by AGREED, FAILED, SKIPPED and the
    kinds of disagreements. `failure` is why an engine gave no answer the last time.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    failure: str | None = None
    examples: dict[str, dict[str, Any]] = field(default_factory=dict)

    def document(self, intent: str) -> dict[str, Any]:
        disagreed = {kind: self.outcomes[kind] for kind in disagreements.KINDS}
        return {
            "intent": intent,
            "compared": self.outcomes[AGREED] + sum(disagreed.values()),
            "agreed": self.outcomes[AGREED],
            "disagreed": disagreed,
            "failed": self.outcomes[FAILED],
            "failure": self.failure,
            "skipped": self.outcomes[SKIPPED],
            "examples": [
                self.examples[kind] for kind in disagreements.KINDS if kind in self.examples
            ],
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> _Counts:
        outcomes = Counter({key: int(document[key]) for key in (AGREED, FAILED, SKIPPED)})
        outcomes.update({key: int(count) for key, count in document["disagreed"].items()})
        examples = {str(each["differs"]): dict(each) for each in document["examples"]}
        return cls(outcomes, document["failure"], examples)


class Report:
    """Counts for one revision of the policies, for several threads."""

    def __init__(self, api: Objects) -> None:
        self._api = api
        self._lock = RLock()
        self._about: tuple[str, str] | None = None
        self._since = ""
        self._counts: dict[str, _Counts] = {}
        self._changed = False
        self._written_at = float("-inf")
        self._written: str | None = None

    def begin(self, engines: Engines, revision: str) -> bool:
        """Count for this revision from now on. After a restart, count on. Returns whether the
        policies are new.
        """
        with self._lock:
            if self._about == (str(engines), revision):
                return False
            first, self._about = self._about is None, (str(engines), revision)
            self._since, self._counts, self._changed = texts.now(), {}, True
            return not (first and self._resume())

    def agreed(self, intent: str) -> None:
        """Both engines gave the same answer."""
        self._count(intent, AGREED)

    def failed(self, intent: str, reason: str) -> None:
        """An engine gave no answer."""
        self._count(intent, FAILED).failure = masking.cut(reason)

    def skipped(self, intent: str) -> None:
        """There were too many reviews."""
        self._count(intent, SKIPPED)

    def disagreed(
        self,
        intent: str,
        review: Mapping[str, Any],
        found: Disagreement,
        enforcing: Answer,
        shadow: Answer,
    ) -> None:
        """The engines gave different answers. The review becomes the example of this kind."""
        counts = self._count(intent, found.kind)
        counts.examples[found.kind] = example(review, found, enforcing, shadow)

    def _count(self, intent: str, outcome: str) -> _Counts:
        with self._lock:
            metrics.REVIEWS.labels(intent, outcome).inc()
            counts = self._counts.setdefault(intent, _Counts())
            counts.outcomes[outcome] += 1
            self._changed = True
            return counts

    def document(self) -> dict[str, Any] | None:
        """{engines, revision, since, intents}; None before the policies are known."""
        with self._lock:
            if self._about is None:
                return None
            engines, revision = self._about
            intents = [counts.document(name) for name, counts in sorted(self._counts.items())]
            return {
                "engines": engines,
                "revision": revision,
                "since": self._since,
                "intents": intents,
            }

    def write(self, trouble: str | None) -> None:
        """Write the report if it is time to; `trouble` is why nothing can be compared."""
        waited = time.monotonic() - self._written_at
        with self._lock:
            changed = self._changed or trouble != self._written
            document = self.document()
            if document is None or waited < (PAUSE if changed else BEAT):
                return
            self._changed, self._written = False, trouble
        self._written_at = time.monotonic()
        report = {**document, "at": texts.now(), "trouble": trouble}
        try:
            self._api.call(
                "PATCH", _PATH, {"data": {REPORT: json.dumps(report)}}, content_type=MERGE
            )
        except ApiServerError as error:
            log.warning("the report cannot be written: %s", error)
            self._changed = True
            self._api.renew()

    def _resume(self) -> bool:
        """Take the counts of the last report, if it is about the same policies."""
        try:
            report = json.loads(self._api.call("GET", _PATH)["data"][REPORT])
            if (report["engines"], report["revision"]) != self._about:
                return False
            counts = {str(each["intent"]): _Counts.of(each) for each in report["intents"]}
            self._since, self._counts = str(report["since"]), counts
        except (ApiServerError, KeyError, TypeError, ValueError, AttributeError):
            return False
        return True


def example(
    review: Mapping[str, Any], found: Disagreement, enforcing: Answer, shadow: Answer
) -> dict[str, Any]:
    """A disagreement as it is shown, without what may be a secret: {differs, why, time, user,
    operation, kind, namespace, name, enforcing, shadow, object}. `why` has first the part of the
    engine that enforces the policies, and `object` is JSON, cut if it is long.
    """
    subject = admission_reviews.subject(review)
    user = review["request"].get("userInfo") or {}
    why = "" if found.kind == disagreements.ALLOWED else found.why
    if found.kind == disagreements.OBJECT:
        shown = (masking.masked(answer.object) for answer in (enforcing, shadow))
        why = disagreements.differing(*shown) or "a part that is hidden here"
    return {
        "differs": found.kind,
        "why": masking.cut(why, 1000),
        "time": texts.now(),
        "user": masking.cut(str(user.get("username", "")), 256),
        "operation": subject.operation,
        "kind": masking.cut(subject.kind, 256),
        "namespace": subject.namespace and masking.cut(subject.namespace, 256),
        "name": masking.cut(subject.name, 256),
        "enforcing": masking.cut(enforcing.words),
        "shadow": masking.cut(shadow.words),
        "object": masking.text(review["request"].get("object")),
    }

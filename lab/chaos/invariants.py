"""What must hold during chaos, as pure functions of the recorded attempts and changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.settings.models import Settings

Spec = Mapping[str, Any]
"""A pod's spec as it was asked for, without its containers."""

OURS = "fairlead.dev"
"""The part of our webhooks' names by which messages of the API server are recognised."""

VARIANT = re.compile(r"fairlead-chaos((?: \w+=\w+)+)")
"""How each variant of the policies marks its answers: a warning from three of its modules, or the
contact of its settings in the reason of a refusal. See lab.chaos.changes."""

# The tolerations that the API server itself adds to every pod (plugin DefaultTolerationSeconds).
_ADDED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NO_REASON = "without explanation"
"""The API server's text for a webhook that denies without a message."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One create as its client saw it; times in seconds of the monotonic clock.

    `wish` is the kind of object: `plain` and `first` (in a new namespace) are pods without a
    nodeSelector, `own` has an allowed one, `evading` one that must be refused, and `namespace` is
    not a pod. `status` is the HTTP status, 0 if there was no answer.
    """

    namespace: str
    pool: str | None
    pod: str
    wish: str
    began: float
    ended: float
    status: int
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """`created`, `there already` (an earlier answer was lost), `refused` (by the policy),
        `webhook failed` (OPA gave no answer), or `API server` (it was away or not ready).
        """
        if self.status == 201:
            return "created"
        if self.status == 409 and "already exists" in self.reason:
            return "there already"
        if OURS in self.reason:
            return "refused" if "denied the request" in self.reason else "webhook failed"
        return "API server"

    @property
    def is_pod(self) -> bool:
        """Whether the attempt was to create a pod."""
        return self.wish != "namespace"

    @property
    def good(self) -> bool:
        """Whether the policy has to admit it."""
        return self.wish != "evading"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


@dataclass(frozen=True)
class Push:
    """A push of the variant `tag`, with its times (time.monotonic). `done` says whether it came
    into force.
    """

    tag: str
    began: float
    ended: float
    done: bool


@dataclass(frozen=True)
class Verdict:
    """The result for one invariant: the number of checks, and the violations."""

    name: str
    checked: int
    violations: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether there are no violations."""
        return not self.violations


def wrong(
    pod: Mapping[str, Any], pool: str | None, asked: Spec | None, settings: Settings
) -> str | None:
    """What is wrong with a pod: it lacks the assignment of its namespace, or it was changed in a
    namespace without a pool. None if it is right.
    """
    spec = pod["spec"]
    selector = spec.get("nodeSelector") or {}
    tolerations = [
        toleration
        for toleration in spec.get("tolerations") or ()
        if toleration.get("key") not in _ADDED
    ]
    if pool is not None:
        assignment = settings.assignment(pool)
        missing = {
            key: value
            for key, value in assignment.node_selector.items()
            if selector.get(key) != value
        }
        if missing:
            return f"without its assignment {missing}: nodeSelector {selector}"
        lacking = [
            toleration.model_dump(by_alias=True, exclude_none=True)
            for toleration in assignment.tolerations
        ]
        lacking = [toleration for toleration in lacking if toleration not in tolerations]
        return f"without its tolerations {lacking}: has {tolerations}" if lacking else None
    if asked is None:
        return "nobody asked for it"
    for field, now in (("nodeSelector", selector), ("tolerations", tolerations)):
        if now != (asked.get(field) or type(now)()):
            return (
                f"altered in a namespace without a pool: {field} {now}, asked for "
                f"{asked.get(field)}"
            )
    return None


def pods(wrong: Mapping[str, str], checked: int) -> list[Verdict]:
    """The verdicts on all pods. `wrong` has the results of the function `wrong`, by pod."""
    altered = {name: why for name, why in wrong.items() if why.startswith(("altered", "nobody"))}
    unplaced = {name: why for name, why in wrong.items() if name not in altered}
    return [
        Verdict(
            "no pod of a mapped namespace is without its assignment", checked, _lines(unplaced)
        ),
        Verdict("no pod of an unmapped namespace is altered", checked, _lines(altered)),
    ]


def unmapped(attempts: Sequence[Attempt]) -> Verdict:
    """Whether our webhooks never refused or failed in a namespace without a pool."""
    ours = [attempt for attempt in attempts if attempt.pool is None]
    bad = [
        f"{attempt}: {attempt.reason}"
        for attempt in ours
        if attempt.outcome in ("refused", "webhook failed")
    ]
    return Verdict("unmapped namespaces never see an error from us", len(ours), tuple(bad))


def reasons(attempts: Sequence[Attempt]) -> Verdict:
    """Whether each denial and failure has a reason."""
    failed = [
        attempt for attempt in attempts if attempt.outcome not in ("created", "there already")
    ]
    bad = [
        f"{attempt}: {attempt.status} {attempt.reason!r}"
        for attempt in failed
        if not attempt.reason or _NO_REASON in attempt.reason
    ]
    return Verdict("every denial and failure carries a reason", len(failed), tuple(bad))


def justified(attempts: Sequence[Attempt]) -> Verdict:
    """Whether the policy refused every evading pod, and otherwise only pods of namespaces that it
    did not know yet.
    """
    judged = [attempt for attempt in attempts if attempt.is_pod and attempt.pool is not None]
    bad = []
    for attempt in judged:
        if (
            attempt.outcome == "refused"
            and attempt.good
            and "is not known to the policy yet" not in attempt.reason
        ):
            bad.append(f"{attempt}: refused without a cause: {attempt.reason}")
        if attempt.outcome in ("created", "there already") and not attempt.good:
            bad.append(f"{attempt}: admitted, though it evades its pool")
    return Verdict("only what evades its pool is refused, and all of that", len(judged), tuple(bad))


def answers(attempts: Sequence[Attempt], pushes: Sequence[Push]) -> list[Verdict]:
    """Whether each answer came from one variant only, and from the one in force where that is
    certain.
    """
    judged = [
        attempt
        for attempt in attempts
        if attempt.is_pod and attempt.pool is not None and attempt.outcome in ("created", "refused")
    ]
    mixed, late = [], []
    certain = 0
    known = {push.tag for push in pushes}
    for attempt in judged:
        texts = attempt.warnings if attempt.outcome == "created" else [attempt.reason]
        tags = [
            {part.partition("=")[2] for part in match[1].split()}
            for text in texts
            for match in VARIANT.finditer(text)
        ]
        if not tags or any(len(tag) != 1 for tag in tags) or not set().union(*tags) <= known:
            mixed.append(f"{attempt}: {'; '.join(texts) or 'answered by neither'}")
            continue
        expected = _in_force(attempt, pushes)
        certain += expected is not None
        if expected is not None and set().union(*tags) != {expected}:
            late.append(f"{attempt}: answered by {'; '.join(texts)} after {expected} was in force")
    return [
        Verdict(
            "every answer is from all of the old policies or all of the new",
            len(judged),
            tuple(mixed),
        ),
        Verdict("once a push returns, only its policies answer", certain, tuple(late)),
    ]


def credentials(accepted: Mapping[str, Iterable[str]], checked: int) -> Verdict:
    """Whether no old credential is valid. `accepted` has the old credentials that a server still
    accepts, by server.
    """
    bad = tuple(f"{server}: {what}" for server, problems in accepted.items() for what in problems)
    return Verdict("no credential is valid that was rotated away", checked, bad)


def _in_force(attempt: Attempt, pushes: Sequence[Push]) -> str | None:
    """The only variant that may answer: that of the last push, if it succeeded before the attempt
    and no other push has begun since. None if several may answer.
    """
    before = [push for push in pushes if push.began <= attempt.ended]
    if not before:
        return None
    last = max(before, key=lambda push: push.began)
    return last.tag if last.done and last.ended <= attempt.began else None


def _lines(reasons: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}: {why}" for name, why in sorted(reasons.items()))

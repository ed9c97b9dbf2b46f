"""Transient access during chaos: grants that begin, end and are revoked while servers are killed,
and what an observer sees of them.

All times are those of one clock, in seconds since the epoch: the windows are compared with it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from fairlead.access import requests
from fairlead.access.bindings import LOCAL
from fairlead.access.requests import API, Request
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.kube import clients
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Refused
from lab.chaos.invariants import Verdict

NAMESPACE, ROLE = "chaos-access", "chaos-reader"
BOUND = 10.0
"""The most seconds with an API server for which access may outlast its window."""
LOOK = 0.2
"""Seconds between two looks at each grant."""
_GAP = 1.0
"""Seconds without an answer after which the API server counts as away."""
_AFTER = 5.0
"""Seconds after its end for which a grant is looked at. At the end, all are looked at again."""
_TIMEOUT = (1.0, 5.0)
_WORLD: tuple[Mapping[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    },
)


@dataclass
class Grant:
    """Access that was asked for, for a user of the same name: its window, and when somebody took it
    away before its end. `seen` are the looks at which the user had access: when each began and when
    its answer was there.
    """

    name: str
    begin: float
    end: float
    revoked: float | None = None
    seen: list[tuple[float, float]] = field(default_factory=list)

    @property
    def over(self) -> float:
        """When nobody may have access any more."""
        return self.end if self.revoked is None else min(self.end, self.revoked)


@dataclass
class Grants:
    """The record of a run: the grants, the number of looks, and when the API server answered."""

    all: list[Grant] = field(default_factory=list)
    looks: int = 0
    answers: list[float] = field(default_factory=list)


def verdicts(grants: Grants, bound: float) -> list[Verdict]:
    """Whether nobody had access before its window, and nobody for more than `bound` seconds after
    it, without those in which the API server was away.
    """
    away = outages(grants.answers)
    early, late = [], []
    for grant in grants.all:
        early += [
            f"{grant.name}: {grant.begin - after:.3f} s before its window"
            for _, after in grant.seen[:1]
            if after < grant.begin
        ]
        seconds = lateness(grant, away)
        late += [f"{grant.name}: {seconds:.1f} s after its window"] if seconds > bound else []
    return [
        Verdict("nobody has access before its window", grants.looks, tuple(early)),
        Verdict(
            f"nobody has access for more than {bound:g} s after its window",
            grants.looks,
            tuple(late),
        ),
    ]


def lateness(grant: Grant, away: Sequence[tuple[float, float]]) -> float:
    """The seconds after its window at which the user still had access, without the times in which
    the API server was away; 0 for none.
    """
    last = max((began for began, _ in grant.seen), default=0.0)
    if last <= grant.over:
        return 0.0
    lost = sum(max(0.0, min(last, end) - max(grant.over, begin)) for begin, end in away)
    return last - grant.over - lost


def outages(answers: Sequence[float]) -> list[tuple[float, float]]:
    """The times in which the API server was away, by when it answered."""
    return [pair for pair in itertools.pairwise(answers) if pair[1] - pair[0] > _GAP]


def summary(grants: Grants) -> dict[str, Any]:
    """{granted, used, revoked, late}: how many grants there were, of which users had access and
    which were revoked, and the longest time that one outlasted its window, in seconds.
    """
    away = outages(grants.answers)
    return {
        "granted": len(grants.all),
        "used": sum(bool(grant.seen) for grant in grants.all),
        "revoked": sum(grant.revoked is not None for grant in grants.all),
        "late": round(max((lateness(grant, away) for grant in grants.all), default=0.0), 3),
    }


@contextmanager
def working(kubeconfig: Path, grants: Grants, *, seed: int = 0) -> Iterator[None]:
    """Grant, revoke and look during the block. Raises what ended one of both, if anything."""
    stop = Event()
    with ThreadPoolExecutor(2) as several:
        futures = [
            several.submit(_grant_until, stop, kubeconfig, grants, seed),
            several.submit(_look_until, stop, kubeconfig, grants),
        ]
        try:
            yield
        finally:
            stop.set()
        for future in futures:
            future.result()


def afterwards(kubeconfig: Path, grants: Grants, deadline: float) -> list[str]:
    """What does not work without faults: access that is asked for begins and can be revoked, and
    nobody has any whose window is over. Each has `deadline` seconds.
    """
    looking, objects = Objects(kubeconfig, timeout=_TIMEOUT), _objects(kubeconfig)
    last = Grant("chaos-last", round(time.time(), 3), round(time.time() + 3600, 3))

    def has_ended(grant: Grant) -> bool:
        return time.time() > grant.over and _look(looking, grants, grant) is False

    steps: dict[str, Callable[[], bool | None]] = {
        "access is granted": partial(_ask, objects, last),
        "access begins": partial(_look, looking, grants, last),
        "access is revoked": partial(_revoke, objects, last),
    }
    steps |= {
        f"the access of {grant.name} has ended": partial(has_ended, grant)
        for grant in (*grants.all, last)
    }
    try:
        for what, step in steps.items():
            waiting.until(step, deadline=deadline, what=what)
    except FairleadError as error:
        return [str(error)]
    return []


def _grant_until(stop: Event, kubeconfig: Path, grants: Grants, seed: int) -> None:
    chance = random.Random(f"access {seed}")  # noqa: S311 - to be repeatable is the point
    objects = _objects(kubeconfig)
    for manifest in _WORLD:
        if not _insist(stop, partial(objects.apply, manifest)):
            return
    to_revoke: list[tuple[float, Grant]] = []
    for number in itertools.count():
        begin = round(time.time() + chance.uniform(-0.5, 2.0), 3)  # windows have milliseconds
        grant = Grant(f"chaos-{number}", begin, round(begin + chance.uniform(2.0, 6.0), 3))
        grants.all.append(grant)
        if not _insist(stop, partial(_ask, objects, grant)):
            return
        if chance.random() < 0.3:
            to_revoke.append((grant.begin + chance.uniform(0.0, 2.0), grant))
        for due, other in to_revoke[:]:
            if due <= time.time():
                to_revoke.remove((due, other))
                if not _insist(stop, partial(_revoke, objects, other)):
                    return
        if stop.wait(chance.uniform(0.2, 0.8)):
            return


def _look_until(stop: Event, kubeconfig: Path, grants: Grants) -> None:
    api = Objects(kubeconfig, timeout=_TIMEOUT)
    while not stop.wait(LOOK):
        now = time.time()
        for grant in [
            each for each in grants.all if now < each.over + _AFTER or _recent(each, now)
        ]:
            _look(api, grants, grant)


def _recent(grant: Grant, now: float) -> bool:
    """Whether the user had access a moment ago."""
    return bool(grant.seen) and now - grant.seen[-1][1] < _AFTER


def _look(api: Objects, grants: Grants, grant: Grant) -> bool | None:
    """Whether the user has access; None if the API server does not say."""
    attributes = {"namespace": NAMESPACE, "resource": "pods", "verb": "list"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": grant.name, "resourceAttributes": attributes},
    }
    began = time.time()
    try:
        answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    except FairleadError:
        return None
    ended = time.time()
    if not answer.ok:
        return None
    grants.looks += 1
    grants.answers.append(ended)
    allowed = answer.body["status"]["allowed"] is True
    if allowed:
        grant.seen.append((began, ended))
    return allowed


def _ask(objects: clients.Objects, grant: Grant) -> bool:
    """Create the transient binding; also true if it is there already."""
    request = Request(
        (NAMESPACE, grant.name),
        ("ClusterRole", ROLE),
        [{"kind": "User", "name": grant.name}],
        datetime.fromtimestamp(grant.begin, UTC),
        timedelta(seconds=grant.end - grant.begin),
        "chaos",
        needs_approval=False,
    )
    try:
        requests.grant(objects, request)
    except Refused as error:
        if error.status != 409:
            raise
    return True


def _revoke(objects: clients.Objects, grant: Grant) -> bool:
    objects.delete(API, LOCAL.parent, grant.name, NAMESPACE)
    grant.revoked = time.time()
    return True


def _insist(stop: Event, action: Callable[[], Any]) -> bool:
    """Do it, with retries; False if stopped before."""
    while True:
        try:
            action()
        except FairleadError:
            if stop.wait(LOOK):
                return False
        else:
            return True


def _objects(kubeconfig: Path) -> clients.Objects:
    return clients.Objects(kubeconfig)

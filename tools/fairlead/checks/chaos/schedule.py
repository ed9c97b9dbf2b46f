"""The schedule of faults: random, but the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

SERVERS = ("opa", "proxy", "sync", "kube-apiserver")
"""The servers that are killed and stopped; of several OPAs, proxies or sidecars one, or all at
once."""

COMPACT, BREAK = "compact etcd", "break policies"
KINDS = (*(f"{how} {server}" for server in SERVERS for how in ("kill", "stop")), COMPACT, BREAK)
"""All kinds of fault: SIGKILL, SIGSTOP for a while, etcd's history thrown away, invalid Rego in
the ConfigMap."""

SPACING = (4.0, 10.0)
"""Seconds between the beginnings of two episodes, where the run is long enough for all kinds at
this pace."""
LONGEST = 4.0
"""Seconds that a fault lasts at most; less than a webhook's patience, so that both sides of it
are seen."""
_LASTS = 0.8
"""A fault lasts at most this part of its episode's spacing."""


@dataclass(frozen=True)
class Fault:
    """Something that breaks `after` seconds from its episode's beginning, for `lasts` seconds (0
    for an instant).

    `pick` chooses one of several servers of its kind, or with None all of them.
    """

    kind: str
    after: float
    lasts: float
    pick: int | None


@dataclass(frozen=True)
class Episode:
    """Faults that begin together, `at` seconds into the run, and `spacing` seconds before the
    next.
    """

    at: float
    spacing: float
    faults: tuple[Fault, ...]


def plan(seed: int, seconds: float) -> list[Episode]:
    """The episodes of a run of that length: one to three faults each, and every kind before any a
    second time.

    A run too short for the usual spacing gets a shorter one, so that it has seen all kinds at its
    end.
    """
    chance = random.Random(f"schedule {seed}")  # noqa: S311 - to be repeatable is the point
    episodes: list[Episode] = []
    deck: list[str] = []
    longest = min(SPACING[1], seconds / (len(KINDS) + 1))
    shortest = min(SPACING[0], longest / 2)
    at = shortest / 2
    while at + longest <= seconds:
        kinds: list[str] = []
        for _ in range(chance.choices((1, 2, 3), (5, 3, 2))[0]):
            if not deck:
                deck = [kind for kind in KINDS if kind not in kinds]
                chance.shuffle(deck)
            kinds.append(deck.pop())
        spacing = chance.uniform(shortest, longest)
        episodes.append(
            Episode(at, spacing, tuple(_fault(chance, kind, spacing) for kind in kinds))
        )
        at += spacing
    return episodes


def _fault(chance: random.Random, kind: str, spacing: float) -> Fault:
    instant = kind.startswith("kill") or kind == COMPACT
    most = min(LONGEST, spacing * _LASTS)
    pick = None if chance.random() < 1 / 3 else chance.randrange(1_000)
    after = chance.uniform(0, min(1.0, spacing - most))
    return Fault(
        kind, round(after, 3), 0.0 if instant else round(chance.uniform(most / 4, most), 3), pick
    )

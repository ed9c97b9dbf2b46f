"""Plans the schedule of faults: random, but always the same for the same seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

SERVERS = ("opa", "sync", "kube-apiserver", "controller")
"""The servers that are killed and stopped. If there are several of a kind, it is one of them or all
at once."""

COMPACT, DELETE, BREAK = "compact etcd", "delete leases", "break policies"
LOSE = "delete policies"
KINDS = (
    *(f"{how} {server}" for server in SERVERS for how in ("kill", "stop")),
    *(COMPACT, DELETE, LOSE, BREAK),
)
"""All kinds of faults: SIGKILL, SIGSTOP for a while, deletion of etcd's history, of the Leases of
controllers, and of a guard with the ConfigMap of the policies, and invalid Rego in that one."""

INSTANT = (COMPACT, DELETE, LOSE)
"""What is done at once, as a SIGKILL is."""
SPACING = (4.0, 10.0)
"""The shortest and longest time between the beginnings of two episodes, in seconds. It is shorter
if the run is too short for all kinds at this pace."""
LONGEST = 4.0
"""The most seconds that a fault lasts. It is less than the timeout of a webhook, so that requests
may succeed late or fail."""
_LASTS = 0.8
"""The largest part of its episode's spacing that a fault lasts."""


@dataclass(frozen=True)
class Fault:
    """A fault that begins `after` seconds into its episode and lasts `lasts` seconds (0 for an
    instant).

    `pick` chooses one of several servers of its kind; None means all of them.
    """

    kind: str
    after: float
    lasts: float
    pick: int | None


@dataclass(frozen=True)
class Episode:
    """Faults that begin about together, `at` seconds into the run and `spacing` seconds before the
    next episode.
    """

    at: float
    spacing: float
    faults: tuple[Fault, ...]


def plan(seed: int, seconds: float) -> list[Episode]:
    """The episodes of a run of `seconds` seconds. Each has one to three faults, and no kind is
    repeated before all others have had their turn.

    A short run gets a shorter spacing, so that it has all kinds, too.
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
    instant = kind.startswith("kill") or kind in INSTANT
    most = min(LONGEST, spacing * _LASTS)
    pick = None if chance.random() < 1 / 3 else chance.randrange(1_000)
    after = chance.uniform(0, min(1.0, spacing - most))
    return Fault(
        kind, round(after, 3), 0.0 if instant else round(chance.uniform(most / 4, most), 3), pick
    )

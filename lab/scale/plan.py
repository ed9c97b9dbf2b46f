"""What a run creates: namespaces with their pools, nodes of each pool, and pods."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlead.settings.models import Pool, Settings

POOLS = ("cheap", "gpu", "highmem", "regulated", "standard")
SETTINGS = Settings(pools={pool: Pool() for pool in POOLS})

Name = tuple[str, str]
"""The namespace and the name of a pod."""


@dataclass(frozen=True)
class Size:
    """How many of each; at least one node for each pool."""

    namespaces: int
    nodes: int
    pods: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """`pools` has the pool of each namespace, `nodes` how many nodes each pool has. The pods are in
    the order of their creation.
    """

    pools: Mapping[str, str]
    nodes: Mapping[str, int]
    pods: Sequence[Name]

    @property
    def pool_of(self) -> dict[Name, str]:
        """The pool in which each pod has to run."""
        return {(namespace, name): self.pools[namespace] for namespace, name in self.pods}


def drawn(size: Size) -> Plan:
    """Pools have equally many nodes. Namespaces have equally many pods; their pools and the order
    of all pods are drawn by the seed.
    """
    chance = random.Random(size.seed)  # noqa: S311 - to be repeatable is the point
    namespaces = [f"team-{number}" for number in range(size.namespaces)]
    nodes = {pool: len(range(index, size.nodes, len(POOLS))) for index, pool in enumerate(POOLS)}
    pods = [(namespaces[number % size.namespaces], f"pod-{number}") for number in range(size.pods)]
    chance.shuffle(pods)
    return Plan({name: chance.choice(POOLS) for name in namespaces}, nodes, pods)

"""Bounds what OPA gets of objects that users size. What does not fit is left out, and told.

The costs are what objects take in OPA, not their bytes as JSON: OPA keeps each object of JSON as a
map of Go, so that `{"a":1}` takes fifty times its bytes. Measured with 30 Ingresses of 12,000
paths: 1.3 KB for a path, which has 92 bytes and four maps.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from fairlead.common import texts
from fairlead.kube.own_kinds import GROUP
from fairlead.kube.resources import Resource
from fairlead.sync.stores import Key

log = logging.getLogger(__name__)

ALL = 192 * 2**20
"""Bytes that all replicated objects may take in OPA, whose container has 512 MiB."""
_OWN = 16 * 2**20
"""The share of Fairlead's own kind of objects, the exceptions; the others have equal shares of the
rest. One takes some 3 KB."""
OBJECT = 4 * 2**20
"""Bytes that one object may take."""
_NAMESPACES = 4
"""The objects of one namespace have one of so many parts of their resource's share."""
_NAMED = 1000
"""Objects that are left out and known by name."""
_MAP, _VALUE, _CHARACTER = 320, 16, 3


class Room:
    """The room for the objects of one resource. It is not safe for threads."""

    def __init__(self, size: int) -> None:
        """`size` is in bytes that they may take in OPA."""
        self.size = size
        self.left_out: dict[Key, None] = {}
        """The objects without room, at most 1000 of them."""
        self._of_namespace: Counter[str] = Counter()

    def put(self, key: Key, before: str | None, text: str | None) -> bool:
        """Whether there is room for the object `text` in place of `before`, each as canonical JSON
        or None. If there is none, the object counts as absent.
        """
        namespace, costs = key[0], cost(text)
        self._of_namespace[namespace] -= cost(before)
        known = self.left_out.pop(key, "") is None
        fits = (
            costs <= OBJECT
            and self._of_namespace.total() + costs <= self.size
            and (not namespace or self._of_namespace[namespace] + costs <= self.size // _NAMESPACES)
        )
        if fits:
            self._of_namespace[namespace] += costs
        elif len(self.left_out) < _NAMED:
            self.left_out[key] = None
            if not known:
                log.warning("%s is left out of OPA's data: there is no room for it", named(key))
        if not self._of_namespace[namespace]:
            del self._of_namespace[namespace]
        return fits


def shares(resources: Iterable[Resource]) -> dict[Resource, int]:
    """The bytes that the objects of each resource may take in OPA."""
    every = list(resources)
    own = {resource: _OWN for resource in every if resource.group == GROUP}
    rest = ALL - sum(own.values())
    return {
        resource: own.get(resource, rest // max(1, len(every) - len(own))) for resource in every
    }


def cost(text: str | None) -> int:
    """About the bytes that an object takes in OPA, by its canonical JSON."""
    if text is None:
        return 0
    values = text.count(",") + text.count("[")
    return _MAP * text.count("{") + _VALUE * values + _CHARACTER * len(text)


def named(key: Key) -> str:
    """<namespace>/<name>, for people."""
    return texts.printable("/".join(filter(None, key)))

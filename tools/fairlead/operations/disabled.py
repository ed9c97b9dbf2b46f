"""What is disabled in a cluster, and how objects are switched off and on. Only API servers are
asked, so that it works while OPA is hung.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError
from fairlead.deployment.switches import Record
from fairlead.kube import clients
from fairlead.kube.errors import Refused

_ATTEMPTS = 5

Key = tuple[str, str, str]
"""An object's apiVersion, kind and name."""
Patch = list[dict[str, Any]]
"""A JSON Patch."""


@dataclass(frozen=True)
class Disabled:
    """The disabled intents of a cluster, and sentences about what is off although no intent, or
    not every intent, is disabled.
    """

    records: Mapping[str, Record]
    halves: Sequence[str]

    @property
    def sentences(self) -> list[str]:
        """A sentence for each disabled intent, and for what is half disabled."""
        return [*(record.sentence for record in self.records.values()), *self.halves]


class Switched(Protocol):
    """The objects of a cluster by which API servers enforce intents, as they are at this moment.

    Without what mutates, what validates would refuse every pod. So an intent is switched off in the
    order of the keys, and on in that of `reversed_keys`.
    """

    none: ClassVar[str]
    """What a cluster has without any of them."""
    about: ClassVar[Mapping[str, str]]
    """The object that Events are about."""

    def disabled(self) -> Disabled:
        """What is disabled."""

    def intents(self) -> set[str]:
        """The intents that can be disabled."""

    def keys(self, intents: set[str]) -> Sequence[Key]:
        """The objects of these intents, in the order in which to switch them off."""

    def reversed_keys(self, intents: set[str]) -> Sequence[Key]:
        """The same objects in the order in which to switch them on."""

    def off(self, key: Key, live: Mapping[str, Any], records: Mapping[str, Record]) -> Patch:
        """What switches off the intents of the records in an object."""

    def on(self, key: Key, live: Mapping[str, Any], intents: set[str]) -> Patch:
        """What switches on these intents in an object."""


def changed_by(
    cluster: Cluster,
    objects: clients.Objects,
    keys: Sequence[Key],
    change: Callable[[Key, Mapping[str, Any]], Patch],
) -> bool:
    """Change the objects in this order; whether there was anything to change. A dry run comes
    first, so that somebody who may change only some of them changes none. Raises FairleadError.
    """
    try:
        for key in keys:
            _patch(objects, key, change, dry_run=True)
    except Refused as error:
        if error.status != 403:
            raise
        raise FairleadError(
            f"{error}. Nothing was changed in cluster {cluster.name}: this takes the right to "
            "patch webhook configurations, admission policies and their bindings, and the verb "
            "administer on policies.fairlead.dev. Use the kubeconfig of an administrator"
        ) from error
    changed = [_patch(objects, key, change) for key in keys]
    return any(changed)


def _patch(
    objects: clients.Objects,
    key: Key,
    change: Callable[[Key, Mapping[str, Any]], Patch],
    *,
    dry_run: bool = False,
) -> bool:
    """Change one object; False if there is nothing to change. Somebody else, such as the keeper,
    may change it at the same time.
    """
    for attempt in range(_ATTEMPTS):
        manifest = objects.get(*key)
        operations = [] if manifest is None else change(key, manifest)
        if manifest is None or not operations:
            return False
        version = manifest["metadata"]["resourceVersion"]
        unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        identified = {"apiVersion": key[0], "kind": key[1], "metadata": {"name": key[2]}}
        try:
            objects.patch(identified, [unchanged, *operations], dry_run=dry_run)
        except Refused as error:
            if error.status != 409 or attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    return False

"""Finds modules that OPA still serves although their source is gone from the cluster.

OPA does not unload a module whose functions others use. Neither sidecar says so, and an OPA that
restarts loads neither the module nor what uses it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.operations.deployed_state import Served
from fairlead.policy.revision import PACKAGE, STAGED_KEY


@dataclass(frozen=True)
class Orphan:
    """A module by its id in OPA (`<namespace>/<configmap>/<key>`), the pod or URL of that OPA,
    and the ids of the modules that use its package.
    """

    opa: str
    module: str
    used_by: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """As `status` lists it."""
        return {"opa": self.opa, "module": self.module, "usedBy": list(self.used_by)}


def of_opa(state: Served, present: Collection[str]) -> Iterator[Orphan]:
    """The modules of an OPA that are not among those `present`, the ids of all sources. Modules of
    earlier revisions are left out: nothing uses them, and the sidecar removes them.
    """
    revisions = f"{NAMESPACE}/{POLICIES}/"
    for id_ in sorted(state.modules):
        staged = id_.startswith(revisions) and STAGED_KEY.match(id_.removeprefix(revisions))
        if id_ not in present and not staged:
            yield Orphan(state.opa.pod or state.opa.url, id_, _users(id_, state.modules))


def _users(id_: str, modules: Mapping[str, str]) -> tuple[str, ...]:
    package = PACKAGE.search(modules[id_])
    if package is None:
        return ()
    reference = re.compile(rf"\bdata\.{re.escape(package[1])}\b")
    return tuple(
        sorted(other for other, text in modules.items() if other != id_ and reference.search(text))
    )

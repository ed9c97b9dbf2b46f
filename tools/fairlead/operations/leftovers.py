"""Removes modules of earlier revisions of the policies from an OPA.

`fairlead sync` does this by itself. kube-mgmt never does: it loads the keys that a ConfigMap has,
and forgets the keys that it had before.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from fairlead.clusters.base import OpaServer
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import NAMESPACE, POLICIES
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import PolicyRejected
from fairlead.policy.revision import STAGED_KEY

PREFIX = f"{NAMESPACE}/{POLICIES}/"
"""The beginning of OPA's id of each of our modules; the key in the ConfigMap follows."""


class Stuck(FairleadError):
    """OPA keeps a module that is not part of the revision, as other policies use it."""


def remove(opa: OpaServer, token: str, modules: Mapping[str, str], *, staged: bool = True) -> int:
    """Unload each of our modules that is not in `modules`, the ConfigMap's data; returns how many.

    Without `staged`, staged modules stay: another revision may still be in force (see
    fairlead.policy.staging). Staged modules that OPA keeps stay as well, as nothing in this
    revision uses them. Raises Stuck if OPA keeps any other module.
    """
    with closing(opa.api(token)) as api:
        keys = [id_.removeprefix(PREFIX) for id_ in api.policies() if id_.startswith(PREFIX)]
        leftover = {
            key: "" for key in keys if key not in modules and (staged or not STAGED_KEY.match(key))
        }
        count = len(leftover)
        while leftover:
            refused = {key: reason for key in leftover if (reason := _unload(api, key)) is not None}
            if len(refused) == len(leftover):
                break
            leftover = refused
        unstaged = {key: reason for key, reason in leftover.items() if not STAGED_KEY.match(key)}
        if unstaged:
            raise Stuck(_stuck(opa, unstaged))
        return count - len(leftover)


def _unload(api: OpaApi, key: str) -> str | None:
    """Unload a module; returns why OPA keeps it, None if it is gone."""
    try:
        api.remove_policy(PREFIX + key)
    except PolicyRejected as error:
        return str(error)
    return None


def _stuck(opa: OpaServer, modules: Mapping[str, str]) -> str:
    return (
        f"{opa.url} still has {', '.join(sorted(modules))} of an earlier revision, which other "
        "policies use: "
        "`fairlead push --restart` restarts every OPA, without it; OPA says "
        + "; ".join(reason for _, reason in sorted(modules.items()))
    )

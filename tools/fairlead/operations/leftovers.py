"""Removes modules of earlier revisions of the policies from an OPA.

`fairlead sync` does it, kube-mgmt never does: it loads the keys that a ConfigMap has, and forgets
those it had before.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairlead.clusters.base import OpaServer
from fairlead.common.errors import FairleadError
from fairlead.deployment.names import POLICIES
from fairlead.opa.api import OpaApi
from fairlead.opa.errors import PolicyRejected
from fairlead.policy.revision import STAGED_KEY
from fairlead.settings.models import NAMESPACE

PREFIX = f"{NAMESPACE}/{POLICIES}/"
"""How OPA's id of each module of ours begins; the key of the ConfigMap follows."""


class Stuck(FairleadError):
    """OPA does not let go of a module that the revision does not have: others use it."""


def remove(opa: OpaServer, token: str, modules: Mapping[str, str], *, staged: bool = True) -> int:
    """Unload each module of ours that is not in `modules`, the ConfigMap's data; tells how many
    those were.

    Without `staged` those of another revision stay, which may still be in force (see
    fairlead.policy.staging). They also stay where OPA keeps them, as nothing of this revision uses
    them. Raises Stuck where OPA keeps another one.
    """
    api = OpaApi(opa.url, ca=opa.ca, token=token)
    try:
        keys = [id_.removeprefix(PREFIX) for id_ in api.policies() if id_.startswith(PREFIX)]
        left = {
            key: "" for key in keys if key not in modules and (staged or not STAGED_KEY.match(key))
        }
        count = len(left)
        while left:
            refused = {key: reason for key in left if (reason := _unload(api, key)) is not None}
            if len(refused) == len(left):
                break
            left = refused
        own = {key: reason for key, reason in left.items() if not STAGED_KEY.match(key)}
        if own:
            raise Stuck(_stuck(opa, own))
        return count - len(left)
    finally:
        api.close()


def _unload(api: OpaApi, key: str) -> str | None:
    """Why OPA keeps the module; None where it is gone."""
    try:
        api.remove_policy(PREFIX + key)
    except PolicyRejected as error:
        return str(error)
    return None


def _stuck(opa: OpaServer, left: Mapping[str, str]) -> str:
    return (
        f"{opa.url} still has {', '.join(sorted(left))} of an earlier revision, which other "
        "policies use: "
        "`fairlead push --restart` restarts every OPA, without it; OPA says "
        + "; ".join(reason for _, reason in sorted(left.items()))
    )

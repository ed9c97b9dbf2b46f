"""Makes an API server serve custom resources."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.policy import workspace
from fairlead.policy.policy_set import PolicySet

_DEADLINE = 30.0
"""Seconds within which an API server knows a new kind."""


def of(policies: PolicySet) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions that the policies bring along. Raises InputError."""
    return [document.value for folder in policies.folders for document in workspace.crds(folder)]


def serve(api: Objects, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create CustomResourceDefinitions, and wait until the API server knows their kinds. Raises
    FairleadError.
    """
    with ThreadPoolExecutor(2) as pool:  # some are large
        list(pool.map(functools.partial(_create, api), definitions))
    wait(api, definitions)


def _create(api: Objects, definition: Mapping[str, Any]) -> None:
    answer = api.request("POST", path_of(definition, None), definition)
    if not answer.ok and answer.status != 409:
        name = definition["metadata"]["name"]
        raise FairleadError(f"the API server refuses the kind {name}: {answer.message}")


def wait(api: Objects, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Wait until the API server knows the kinds. Raises FairleadError."""
    for definition in definitions:
        version, kind = identity(definition)
        waiting.until(
            functools.partial(api.serves, {"apiVersion": version, "kind": kind}),
            deadline=_DEADLINE,
            what=f"the API server knows the kind {kind}",
        )


def identity(definition: Mapping[str, Any]) -> tuple[str, str]:
    """The apiVersion, in the first version that is served, and the kind of the resources that the
    definition defines.
    """
    spec = definition["spec"]
    version = next(entry["name"] for entry in spec["versions"] if entry["served"])
    return f"{spec['group']}/{version}", str(spec["names"]["kind"])

"""Makes an API server serve custom resources."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.engines.live import custom_resources
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.policy import workspace
from fairlead.policy.policy_set import PolicySet


def of(policies: PolicySet) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions that the policies bring along. Raises InputError."""
    return [document.value for folder in policies.folders for document in workspace.crds(folder)]


def serve(api: Objects, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create CustomResourceDefinitions, and wait until the API server knows their kinds. Raises
    FairleadError.
    """
    with ThreadPoolExecutor(2) as pool:  # some are large
        list(pool.map(functools.partial(_create, api), definitions))
    custom_resources.wait(api, definitions)


def _create(api: Objects, definition: Mapping[str, Any]) -> None:
    answer = api.request("POST", path_of(definition, None), definition)
    if not answer.ok and answer.status != 409:
        name = definition["metadata"]["name"]
        raise FairleadError(f"the API server refuses the kind {name}: {answer.message}")

"""Decides which policies and documents the sidecar does not load although OPA might accept them."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.opa.api import OpaApi
from fairlead.policy import data_places
from fairlead.sync import policy_problems
from fairlead.sync.config_maps import Item
from fairlead.sync.policy_problems import Problem

MARKER = "fairlead_sync"
"""The document that shows whether OPA still has what this process loaded. No namespace can have
this name, because of the underscore."""

SYSTEM = "fairlead/fairlead-policies"
"""The default of the only ConfigMap that may define the package system."""


def refusal(
    opa: OpaApi, item: Item, text: str, *, system: str | None, replicated: Sequence[Sequence[str]]
) -> Problem | None:
    """Why a policy or document must not be loaded; None if it may. For the arguments see
    policy_problems.of_package.
    """
    kind, id_ = item
    if kind == "document":
        return policy_problems.of_place(id_, replicated)
    replicated = [*replicated, data_places.PLACEMENT]
    problem = policy_problems.of_package(id_, text, system=system, replicated=replicated)
    if problem or not policy_problems.may_hide(text, replicated):
        return problem
    return policy_problems.of_rules(id_, text, opa.rules(text), replicated)

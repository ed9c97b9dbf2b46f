"""Says when an API server serves custom resources."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common import waiting
from fairlead.kube.clients import Objects

_DEADLINE = 30.0
"""Seconds within which an API server knows a new kind."""


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

"""The kinds of object that an API server serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of object, as discovery lists it; `plural` is its name in URLs and in RBAC rules."""

    api_version: str
    name: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]


def kinds(resource_list: Mapping[str, Any]) -> list[Kind]:
    """The kinds of an APIResourceList, without subresources."""
    return [
        Kind(
            resource_list["groupVersion"],
            resource["kind"],
            resource["name"],
            bool(resource["namespaced"]),
            tuple(resource["verbs"]),
        )
        for resource in resource_list.get("resources") or ()
        if "/" not in resource["name"]
    ]

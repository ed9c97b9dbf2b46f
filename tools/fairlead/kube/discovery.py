"""The kinds of object that an API server serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client

from fairlead.kube import clients
from fairlead.kube.errors import Refused


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


def kinds(api: client.ApiClient) -> list[Kind]:
    """Every kind that is served, in the preferred version of its group. Raises FairleadError.

    A group is left out while its own server (an aggregated API) is away.
    """
    with clients.explained("cannot read the API's resources"):
        all_kinds = _kinds("v1", client.CoreV1Api(api).get_api_resources())
        groups = client.ApisApi(api).get_api_versions().groups
    for group in groups:
        version = group.preferred_version
        if version is None:
            continue
        try:
            with clients.explained(f"cannot read the resources of {group.name}"):
                resources = client.CustomObjectsApi(api).get_api_resources(
                    group.name, version.version
                )
        except Refused as error:
            if error.status in (404, 503):
                continue
            raise
        all_kinds += _kinds(version.group_version, resources)
    return all_kinds


def _kinds(api_version: str, resource_list: Any) -> list[Kind]:
    return [
        Kind(api_version, str(r.kind), str(r.name), bool(r.namespaced), tuple(r.verbs))
        for r in resource_list.resources
        if "/" not in r.name
    ]

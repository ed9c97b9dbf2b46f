"""The policies of all cases in one API server at once: those of each settings concern only requests
by users of a group of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from fairlead.common.errors import FairleadError
from fairlead.kube import admission_reviews
from fairlead.kube.clients import Objects
from fairlead.policy.case_policies import CasePolicies
from fairlead.policy.cases import Case
from fairlead.policy.instances import Instance
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_GROUP = "fairlead:verify:{}"
"""The group of users whose requests are decided by the settings of that number."""

T = TypeVar("T")
"""What an engine renders an instance of an intent as. Equal ones have the same `repr`."""


@dataclass(frozen=True)
class InForce(Generic[T]):
    """An instance, with the groups of users that it is for, and the resources of their requests."""

    rendered: T
    groups: list[str] = field(default_factory=list)
    resources: set[tuple[str, str]] = field(default_factory=set)

    def concerns(self, policy: Mapping[str, Any]) -> bool:
        """Whether a policy is about one of these requests."""
        rules = policy["spec"]["matchConstraints"]["resourceRules"]
        about = {(g, r) for rule in rules for g in rule["apiGroups"] for r in rule["resources"]}
        return bool(about & self.resources)

    def named(self, policy: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The policy for requests of users in these groups, with the number in its name."""
        condition = {
            "name": "verified-here",
            "expression": f"{sorted(self.groups)}.exists(group, group in request.userInfo.groups)",
        }
        conditions = [condition, *policy["spec"].get("matchConditions", ())]
        return numbered(
            {**policy, "spec": {**policy["spec"], "matchConditions": conditions}}, number
        )


@dataclass
class World(Generic[T]):
    """The instances of all settings, each once."""

    policies: CasePolicies
    render: Callable[[Sequence[Instance], Settings], Iterable[T]]
    _instances: dict[str, InForce[T]] = field(default_factory=dict)
    _groups: dict[str, tuple[str, list[InForce[T]]]] = field(default_factory=dict)

    def add(self, case: Case) -> str:
        """Take the instances that are in force for a case; returns the group of users that they are
        for.
        """
        key = f"{case.settings.model_dump_json()} {case.exceptions}"
        if key not in self._groups:
            self._groups[key] = self._added(self.policies.of(case))
        group, instances = self._groups[key]
        for instance in instances:
            instance.resources.add(_resource(case))
        return group

    def __iter__(self) -> Iterator[InForce[T]]:
        return iter(self._instances.values())

    def __len__(self) -> int:
        return len(self._instances)

    def _added(self, policies: PolicySet) -> tuple[str, list[InForce[T]]]:
        group = _GROUP.format(len(self._groups))
        instances = []
        for rendered in self.render(policies.active, policies.settings):
            instance = self._instances.setdefault(repr(rendered), InForce(rendered))
            instance.groups.append(group)
            instances.append(instance)
        return group, instances


def numbered(manifest: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The manifest with the number in its name."""
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {**metadata, "name": f"{metadata['name']}.{number}"},
        "spec": dict(manifest["spec"]),
    }


def create(api: Objects, path: str, manifest: Mapping[str, Any]) -> None:
    """Create an object, whose fields the API server has to know. Raises FairleadError."""
    answer = api.request("POST", path, manifest, query={"fieldValidation": "Strict"})
    if not answer.ok:
        title = f"{manifest['kind']} {manifest['metadata']['name']}"
        raise FairleadError(f"the API server refuses {title}: {answer.message}")


def _resource(case: Case) -> tuple[str, str]:
    """The API group and the resource of the case's request, with its subresource."""
    request = case.request
    of = admission_reviews.build(
        request.manifest, sub_resource=request.sub_resource, parent=request.parent
    )["request"]["resource"]
    return of["group"], "/".join(filter(None, (of["resource"], request.sub_resource)))

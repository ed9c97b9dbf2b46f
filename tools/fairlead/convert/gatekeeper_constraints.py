"""The constraints of Gatekeeper's library that intents of Fairlead can express, with what the
parameters of an intent cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from fairlead.common import yaml_files
from fairlead.convert import parameters
from fairlead.convert.parameters import MOST, Amounts, Kinds, Parameters
from fairlead.convert.reading import Lenient, unknown
from fairlead.convert.targets import Untakable

LIMITS_BEFORE_1_1 = "K8sContainerLimits before 1.1.0"
"""Containers had to limit cpu, whatever the parameters said."""

_Quantity = str | int | float | None


class _Range(Lenient):
    min_replicas: int | None = Field(None, alias="min_replicas")
    max_replicas: int | None = Field(None, alias="max_replicas")


class _ReplicaLimits(Lenient):
    ranges: list[_Range] = []


class _Label(Lenient):
    key: str
    allowed_regex: str = ""


class _RequiredLabels(Lenient):
    labels: list[_Label] = []
    message: str = ""


class _AllowedRepos(Lenient):
    repos: list[str] = []


class _AllowedImages(Lenient):
    allowed_images: list[str] = []


class _Exempting(Lenient):
    exempt_images: list[str] = []


class _Amounts(_Exempting):
    cpu: _Quantity = None
    memory: _Quantity = None


class _Storage(_Exempting):
    ephemeral_storage: _Quantity = Field(None, alias="ephemeral-storage")


class _RequiredResources(_Exempting):
    limits: list[str] = []
    requests: list[str] = []


class _UserRange(Lenient):
    min: int
    max: int


class _Rule(Lenient):
    rule: str = "RunAsAny"
    ranges: list[_UserRange] = []


class _Users(_Exempting):
    run_as_user: _Rule = _Rule()
    run_as_group: _Rule = _Rule()
    supplemental_groups: _Rule = _Rule()
    fs_group: _Rule = _Rule()


def of_constraint(kind: str, document: yaml_files.Document, kinds: Kinds) -> Parameters:
    """The parameters for a constraint of a kind in CONSTRAINTS; `document` has the constraint's
    own. Raises Untakable, and InputError for values of a wrong type.
    """
    model, convert = CONSTRAINTS[kind]
    constraint = document.parse(model)
    if fields := unknown(constraint):
        raise Untakable(f"parameters.{fields[0]} is not a parameter of the library: remove it")
    if isinstance(constraint, _Exempting) and constraint.exempt_images:
        raise Untakable(
            "parameters.exemptImages: intents of Fairlead exempt namespaces, users and groups, but "
            "no images: move these containers to a namespace of their own, and exempt that"
        )
    result = convert(constraint, kinds)
    parameters.note_foreign_kinds(result, kinds)
    return result


def _replica_limits(constraint: _ReplicaLimits, kinds: Kinds) -> Parameters:
    ranges: list[tuple[int, int]] = []
    left_out: list[str] = []
    for number, limits in enumerate(constraint.ranges):
        least, most = limits.min_replicas, limits.max_replicas
        if least is None or most is None or max(least, 0) > most:
            left_out.append(
                f"parameters.ranges[{number}] includes no number, because it has no "
                "min_replicas, no max_replicas, or a minimum above the maximum: correct it, if "
                "it was to include some"
            )
        else:
            ranges.append((least, most))
    if not ranges:
        raise Untakable("its ranges include no number at all, so it refuses everything")
    result = parameters.replica_limits(ranges, kinds)
    result.left_out = left_out + result.left_out
    return result


def _required_labels(constraint: _RequiredLabels, kinds: Kinds) -> Parameters:
    if not constraint.labels:
        raise Untakable("it requires no label")
    result = parameters.required_labels(
        {label.key: parameters.whole_value(label.allowed_regex) for label in constraint.labels},
        kinds,
    )
    if constraint.message:
        result.left_out.append(
            "parameters.message: Fairlead's refusals have their own words: set `contact` to say "
            "whom to ask"
        )
    return result


def _allowed_repos(constraint: _AllowedRepos, kinds: Kinds) -> Parameters:
    if not constraint.repos:
        raise Untakable("it allows no image at all")
    sources = {prefix: parameters.source_of(prefix) for prefix in constraint.repos}
    return parameters.image_sources(sources, "parameters.repos", kinds)


def _allowed_images(constraint: _AllowedImages, kinds: Kinds) -> Parameters:
    return parameters.allowed_images(constraint.allowed_images, "parameters.allowedImages", kinds)


def _digests(_: _Exempting, __: Kinds) -> Parameters:
    raise parameters.digests()


def _container_limits(constraint: _Amounts, kinds: Kinds) -> Parameters:
    """Those since 1.1.0: without cpu, or with -1, nothing is asked of it."""
    cpu = "-1" if constraint.cpu is None else str(constraint.cpu)
    limits = _amounts({"cpu": cpu, "memory": constraint.memory})
    if cpu == "-1":
        limits.required.remove("cpu")
    return parameters.resource_limits(Amounts(), limits, kinds)


def _container_limits_before(constraint: _Amounts, kinds: Kinds) -> Parameters:
    limits = _amounts({"cpu": constraint.cpu, "memory": constraint.memory})
    return parameters.resource_limits(Amounts(), limits, kinds)


def _container_requests(constraint: _Amounts, kinds: Kinds) -> Parameters:
    requests = _amounts({"cpu": constraint.cpu, "memory": constraint.memory})
    return parameters.resource_limits(requests, Amounts(), kinds)


def _storage(constraint: _Storage, kinds: Kinds) -> Parameters:
    limits = _amounts({"ephemeral-storage": constraint.ephemeral_storage})
    return parameters.resource_limits(Amounts(), limits, kinds)


def _required_resources(constraint: _RequiredResources, kinds: Kinds) -> Parameters:
    if not constraint.requests and not constraint.limits:
        raise Untakable("it requires no resource")
    return parameters.resource_limits(
        Amounts(constraint.requests), Amounts(constraint.limits), kinds
    )


def _amounts(maxima: Mapping[str, _Quantity]) -> Amounts:
    """Each resource is required. A maximum of -1 is none."""
    texts = {name: str(value) for name, value in maxima.items() if value is not None}
    return Amounts(
        required=list(maxima),
        container_max={name: text for name, text in texts.items() if text != "-1"},
    )


def _allowed_users(constraint: _Users, kinds: Kinds) -> Parameters:
    users = constraint.run_as_user
    match users.rule:
        case "MustRunAsNonRoot":
            ranges = [(1, MOST)]
        case "MustRunAs" if users.ranges:
            ranges = [(each.min, each.max) for each in users.ranges]
        case "MustRunAs":
            raise Untakable("parameters.runAsUser allows no user at all")
        case "RunAsAny":
            raise Untakable("it is not about users, and no intent of Fairlead is about groups")
        case rule:
            raise Untakable(f"parameters.runAsUser.rule {rule} is not one of the library")
    result = parameters.run_as_user(ranges, kinds, require_user=users.rule == "MustRunAs")
    groups = {
        "runAsGroup": constraint.run_as_group,
        "supplementalGroups": constraint.supplemental_groups,
        "fsGroup": constraint.fs_group,
    }
    if names := [f"parameters.{name}" for name, rule in groups.items() if rule.rule != "RunAsAny"]:
        result.left_out.append(
            f"{', '.join(names)}: run-as-user is about users alone: write a policy (fairlead new "
            "policy NAME)"
        )
    return result


CONSTRAINTS: Mapping[str, tuple[type[Lenient], Callable[[Any, Kinds], Parameters]]] = {
    "K8sAllowedRepos": (_AllowedRepos, _allowed_repos),
    "K8sAllowedReposv2": (_AllowedImages, _allowed_images),
    "K8sContainerEphemeralStorageLimit": (_Storage, _storage),
    "K8sContainerLimits": (_Amounts, _container_limits),
    LIMITS_BEFORE_1_1: (_Amounts, _container_limits_before),
    "K8sContainerRequests": (_Amounts, _container_requests),
    "K8sImageDigests": (_Exempting, _digests),
    "K8sPSPAllowedUsers": (_Users, _allowed_users),
    "K8sReplicaLimits": (_ReplicaLimits, _replica_limits),
    "K8sRequiredLabels": (_RequiredLabels, _required_labels),
    "K8sRequiredResources": (_RequiredResources, _required_resources),
}
"""By the kind of the constraint, its own parameters, and what makes those of the intent."""

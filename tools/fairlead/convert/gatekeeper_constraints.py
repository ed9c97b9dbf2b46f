"""The constraints of Gatekeeper's library that intents of Fairlead can express, with what the
parameters of an intent cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from fairlead.common import yaml_files
from fairlead.convert.reading import Lenient, unknown
from fairlead.convert.targets import Untakable

_MOST = 2147483647
_REPLICATED = ("Deployment", "StatefulSet", "ReplicaSet")

# The versions of Kubernetes' own API groups.
_VERSIONS = {
    "": "v1",
    "apps": "apps/v1",
    "autoscaling": "autoscaling/v2",
    "batch": "batch/v1",
    "networking.k8s.io": "networking.k8s.io/v1",
    "policy": "policy/v1",
    "rbac.authorization.k8s.io": "rbac.authorization.k8s.io/v1",
    "storage.k8s.io": "storage.k8s.io/v1",
}

Kinds = Sequence[tuple[str, str]]
"""Groups and kinds; `*` stands for all."""


@dataclass
class Parameters:
    """The parameters of an instance, with what they leave out and what differs."""

    intent: str
    values: dict[str, Any]
    left_out: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


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


class _ContainerLimits(Lenient):
    cpu: str | int | float | None = None
    memory: str | int | float | None = None
    exempt_images: list[str] = []


def parameters(kind: str, document: yaml_files.Document, kinds: Kinds) -> Parameters:
    """The parameters for a constraint of a kind in CONSTRAINTS; `document` has the constraint's
    own. Raises Untakable, and InputError for values of a wrong type.
    """
    model, convert = CONSTRAINTS[kind]
    constraint = document.parse(model)
    if fields := unknown(constraint):
        raise Untakable(f"parameters.{fields[0]} is not a parameter of the library: remove it")
    result = convert(constraint, kinds)
    _note_foreign_kinds(result, kinds)
    return result


def _replica_limits(constraint: _ReplicaLimits, kinds: Kinds) -> Parameters:
    result = Parameters("replica-limits", {"ranges": []})
    for number, limits in enumerate(constraint.ranges):
        minimum, maximum = limits.min_replicas, limits.max_replicas
        if minimum is None or maximum is None or max(minimum, 0) > maximum:
            result.left_out.append(
                f"parameters.ranges[{number}] includes no number, because it has no "
                "min_replicas, no max_replicas, or a minimum above the maximum: correct it, if "
                "it was to include some"
            )
        else:
            values = {"min_replicas": max(minimum, 0), "max_replicas": min(maximum, _MOST)}
            result.values["ranges"].append(values)
    if not result.values["ranges"]:
        raise Untakable("its ranges include no number at all, so it refuses everything")
    ours = [kind for group, kind in kinds if _is_taken("replica-limits", group, kind)]
    if not ours:
        raise Untakable(
            f"replica-limits is about apps/{', apps/'.join(_REPLICATED)}, none of which "
            "match.kinds names: write a policy (fairlead new policy NAME)"
        )
    missing = [kind for kind in _REPLICATED if kind not in ours]
    if missing:
        result.left_out.append(
            f"match.kinds leaves out {' and '.join(missing)}, which replica-limits decides about, "
            "too: check that these keep the limits, or set enforcement to warn first"
        )
    return result


def _required_labels(constraint: _RequiredLabels, kinds: Kinds) -> Parameters:
    if not constraint.labels:
        raise Untakable("it requires no label")
    ours = [kind for kind in kinds if _is_taken("required-labels", *kind)]
    if not ours:
        raise Untakable(
            "required-labels takes kinds of Kubernetes by their names, and match.kinds names "
            "none: name kinds, and custom resources as custom_resources"
        )
    result = Parameters(
        "required-labels",
        {
            "labels": [
                {"key": label.key, "pattern": whole_value(label.allowed_regex)}
                for label in constraint.labels
            ],
            "kinds": [f"{_VERSIONS[group]}/{kind}" for group, kind in ours],
        },
    )
    if constraint.message:
        result.left_out.append(
            "parameters.message: Fairlead's refusals have their own words: set `contact` to say "
            "whom to ask"
        )
    return result


def whole_value(regex: str) -> str:
    """A pattern that the whole value matches if a part of it matches `regex`."""
    if not regex:
        return ".*"
    inner = regex.removeprefix("^").removesuffix("$")
    anchored = len(inner) == len(regex) - 2 and not re.search(r"[|\\^$]", inner)
    return inner if anchored and inner else f".*(?:{regex}).*"


def _allowed_repos(constraint: _AllowedRepos, kinds: Kinds) -> Parameters:
    if not constraint.repos:
        raise Untakable("it allows no image at all")
    return _image_sources(
        {prefix: source_of(prefix) for prefix in constraint.repos}, "repos", kinds
    )


def _allowed_images(constraint: _AllowedImages, kinds: Kinds) -> Parameters:
    """Of K8sAllowedReposv2, in which only what ends with `*` is a prefix."""
    if not constraint.allowed_images:
        raise Untakable("it allows no image at all")
    if "*" in constraint.allowed_images:
        raise Untakable(
            "parameters.allowedImages: '*' allows every image: leave the constraint out"
        )
    sources: dict[str, str] = {}
    left_out: list[str] = []
    for image in constraint.allowed_images:
        if not image.endswith("*"):
            left_out.append(
                f"parameters.allowedImages: {image!r} allows this reference alone, and "
                "image-sources allows repositories with all of their tags and digests, so it is "
                "refused: add its repository to sources, if that will do"
            )
            continue
        prefix = image[:-1]
        try:
            sources[prefix] = source_of(prefix, "allowedImages")
        except Untakable as error:
            left_out.append(str(error))
    if not sources:
        raise Untakable("; ".join(left_out))
    result = _image_sources(sources, "allowedImages", kinds)
    result.left_out += left_out
    return result


def _image_sources(sources: Mapping[str, str], parameter: str, kinds: Kinds) -> Parameters:
    """The parameters for these sources, each by the prefix of references that it is for."""
    _only_pods(kinds, "image-sources")
    result = Parameters("image-sources", {"sources": list(dict.fromkeys(sources.values()))})
    for prefix, source in sources.items():
        if not prefix.endswith("/"):
            result.left_out.append(
                f"parameters.{parameter}: the prefix {prefix!r} allows whatever begins so, such as "
                f"{prefix + '-other'!r}; fairlead.yaml allows {source} and what is below it: add "
                "the other repositories that you use to sources"
            )
    if any(source.startswith("docker.io") for source in sources.values()):
        result.differences.append(
            "image-sources reads references as container runtimes do, so nginx and "
            "docker.io/library/nginx are the same"
        )
    return result


def source_of(prefix: str, parameter: str = "repos") -> str:
    """The registry or repository that a prefix of references means. Raises Untakable, which names
    the parameter.
    """
    parts = prefix.removesuffix("/").split("/")
    host, segments = parts[0], parts[1:]
    registry = bool(re.search(r"[.:A-Z]", host)) or host == "localhost"
    if not registry:
        alone = len(parts) == 1 and not prefix.endswith("/")
        host, segments = "docker.io", ["library", *parts] if alone else parts
    elif host in ("docker.io", "index.docker.io"):
        alone = len(segments) == 1 and not prefix.endswith("/")
        host, segments = "docker.io", ["library", *segments] if alone else segments
    elif host == prefix and _may_be_a_tag(host):
        raise Untakable(_no_source(prefix, parameter))
    if not all(parts) or any(":" in part or "@" in part for part in segments):
        raise Untakable(_no_source(prefix, parameter))
    return "/".join([host.lower(), *segments])


def _may_be_a_tag(host: str) -> bool:
    """Whether a text without a slash may be an image with a tag, such as nginx:1."""
    name, colon, port = host.partition(":")
    return bool(colon) and not (port.isdecimal() and ("." in name or name == "localhost"))


def _no_source(prefix: str, parameter: str) -> str:
    return (
        f"parameters.{parameter}: the prefix {prefix!r} is not a registry or repository, which is "
        "all that image-sources allows, so all images of it would be refused: write a repository, "
        "or a registry with a slash at its end"
    )


def _container_limits(constraint: _ContainerLimits, kinds: Kinds) -> Parameters:
    _only_pods(kinds, "resource-limits")
    if constraint.exempt_images:
        raise Untakable(
            "parameters.exemptImages: resource-limits exempts namespaces, users and groups, but no "
            "images: move these containers to a namespace of their own, and exempt that"
        )
    maxima = {"cpu": constraint.cpu, "memory": constraint.memory}
    limits = {
        "required": ["cpu", "memory"],
        "container_max": {name: str(value) for name, value in maxima.items() if value is not None},
    }
    return Parameters(
        "resource-limits",
        {"requests": {"required": []}, "limits": limits, "templates": False},
        differences=["resource-limits counts the limits of a pod for its containers, too"],
    )


CONSTRAINTS: Mapping[str, tuple[type[Lenient], Callable[[Any, Kinds], Parameters]]] = {
    "K8sAllowedRepos": (_AllowedRepos, _allowed_repos),
    "K8sAllowedReposv2": (_AllowedImages, _allowed_images),
    "K8sContainerLimits": (_ContainerLimits, _container_limits),
    "K8sReplicaLimits": (_ReplicaLimits, _replica_limits),
    "K8sRequiredLabels": (_RequiredLabels, _required_labels),
}
"""By the kind of the constraint, its own parameters, and what makes those of the intent."""


def _only_pods(kinds: Kinds, intent: str) -> None:
    if not any(_is_taken(intent, *kind) for kind in kinds):
        raise Untakable(
            f"{intent} is about pods, which match.kinds does not name: name them, or write a "
            "policy (fairlead new policy NAME)"
        )


def _note_foreign_kinds(result: Parameters, kinds: Kinds) -> None:
    foreign = [kind for kind in kinds if not _is_taken(result.intent, *kind)]
    if foreign:
        names = ", ".join(sorted(f"{group or 'core'}/{kind}" for group, kind in foreign))
        result.left_out.append(
            f"match.kinds: {result.intent} takes no kind {names} from it: write a policy "
            "(fairlead new policy NAME), or name custom resources as custom_resources"
            if result.intent == "required-labels"
            else f"match.kinds: {result.intent} is not about {names}: write a policy "
            "(fairlead new policy NAME)"
        )


def _is_taken(intent: str, group: str, kind: str) -> bool:
    """Whether the intent, with these parameters, is about a kind."""
    if intent == "required-labels":
        return group in _VERSIONS and kind != "*"
    if intent == "replica-limits":
        return group in ("apps", "*") and kind in _REPLICATED
    return group in ("", "*") and kind == "Pod"

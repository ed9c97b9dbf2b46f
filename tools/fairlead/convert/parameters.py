"""What intents are asked to do, whoever asks: their parameters, and what these cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.convert.targets import Untakable

MOST = 2147483647
"""The most that a number of Kubernetes can be."""

_REPLICATED = ("Deployment", "StatefulSet", "ReplicaSet")

# The kinds of Kubernetes that policies are about, by their apiVersion.
_KINDS: Mapping[str, str] = {
    "v1": "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
    "PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service "
    "ServiceAccount",
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "networking.k8s.io/v1": "Ingress IngressClass NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "storage.k8s.io/v1": "StorageClass",
}
_VERSIONS = {version.rpartition("/")[0]: version for version in _KINDS}
"""The apiVersion of each API group."""


def group_of_kind(kind: str) -> str:
    """The API group of a kind of Kubernetes; `*` for any other one."""
    for version, kinds in _KINDS.items():
        if kind in kinds.split():
            return version.rpartition("/")[0]
    return "*"


def kind_of_resource(resource: str) -> str:
    """The kind of a resource of Kubernetes, as in `pods`; other names stay as they are."""
    name, slash, subresource = resource.partition("/")
    for kind in " ".join(_KINDS.values()).split():
        singular = kind.lower()
        plurals = (f"{singular}s", f"{singular}es", f"{singular[:-1]}ies")
        if name == "endpoints" == singular or (name in plurals and name != "endpointses"):
            return kind + slash + subresource
    return resource


@dataclass(frozen=True)
class Kinds:
    """The kinds that a policy is about: `pairs` of a group and a kind; `*` stands for all. They
    stand in the `field` of the policy. `templates` says whether pods in templates of workloads
    count, too.
    """

    pairs: Sequence[tuple[str, str]]
    field: str = "match.kinds"
    templates: bool = False

    def __str__(self) -> str:
        names = [*dict.fromkeys(kind for _, kind in self.pairs)]
        more = " and other kinds" if len(names) > 4 else ""
        return (", ".join(names[:4]) + more).replace("*", "all kinds") or "no kind"


@dataclass
class Parameters:
    """The parameters of an instance, with what they leave out and what differs."""

    intent: str
    values: dict[str, Any]
    left_out: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)


def replica_limits(ranges: Sequence[tuple[int, int]], kinds: Kinds) -> Parameters:
    """One of the `ranges`, each with its least and its most, includes the number of replicas.
    Raises Untakable.
    """
    values = [
        {"min_replicas": max(least, 0), "max_replicas": min(most, MOST)} for least, most in ranges
    ]
    result = Parameters("replica-limits", {"ranges": values})
    ours = {kind for group, kind in kinds.pairs if _is_ours(result, group, kind)}
    if not ours:
        raise Untakable(
            f"replica-limits is about apps/{', apps/'.join(_REPLICATED)}, none of which "
            f"{kinds.field} names: write a policy (fairlead new policy NAME)"
        )
    if missing := [kind for kind in _REPLICATED if kind not in ours and "*" not in ours]:
        result.left_out.append(
            f"{kinds.field} leaves out {' and '.join(missing)}, which replica-limits decides "
            "about, too: check that these keep the limits, or set enforcement to warn first"
        )
    if not any(group in ("", "*") for group, _ in kinds.pairs):
        result.differences.append("replica-limits decides about ReplicationControllers, too")
    return result


def required_labels(patterns: Mapping[str, str | Sequence[str]], kinds: Kinds) -> Parameters:
    """Each label is there, with one of these values or one that matches the pattern. Raises
    Untakable.
    """
    ours = [(group, kind) for group, kind in kinds.pairs if _may_need_labels(group, kind)]
    if not ours:
        raise Untakable(
            f"required-labels takes kinds of Kubernetes by their names, and {kinds.field} names "
            "none: name kinds, and custom resources as custom_resources"
        )
    labels = [
        {"key": key, "pattern": test} if isinstance(test, str) else {"key": key, "values": [*test]}
        for key, test in patterns.items()
    ]
    names = [f"{_VERSIONS[group]}/{kind}" for group, kind in ours]
    result = Parameters("required-labels", {"labels": labels, "kinds": names})
    if kinds.templates:
        result.differences.append(
            "required-labels refuses pods without a label, and not the workloads whose templates "
            "lack it"
        )
    return result


def whole_value(regex: str) -> str:
    """A pattern that the whole value matches if a part of it matches `regex`."""
    if not regex:
        return ".*"
    inner = regex.removeprefix("^").removesuffix("$")
    anchored = len(inner) == len(regex) - 2 and not re.search(r"[|\\^$]", inner)
    return inner if anchored and inner else f".*(?:{regex}).*"


def image_sources(sources: Mapping[str, str], field: str, kinds: Kinds) -> Parameters:
    """Images come from these sources, each by the prefix of references that it is for; `field` of
    the policy has the prefixes. Raises Untakable.
    """
    result = _of_pods("image-sources", {"sources": list(dict.fromkeys(sources.values()))}, kinds)
    for prefix, source in sources.items():
        if not prefix.endswith("/"):
            result.left_out.append(
                f"{field}: the prefix {prefix!r} allows whatever begins so, such as "
                f"{prefix + '-other'!r}; fairlead.yaml allows {source} and what is below it: add "
                "the other repositories that you use to sources"
            )
    if any(source.startswith("docker.io") for source in sources.values()):
        result.differences.append(
            "image-sources reads references as container runtimes do, so nginx and "
            "docker.io/library/nginx are the same"
        )
    return result


def allowed_images(globs: Sequence[str], field: str, kinds: Kinds) -> Parameters:
    """Images match one of the `globs`; what does not end with `*` allows this reference alone.
    Raises Untakable.
    """
    if not globs:
        raise Untakable("it allows no image at all")
    if "*" in globs:
        raise Untakable(f"{field}: '*' allows every image: leave the policy out")
    sources: dict[str, str] = {}
    left_out: list[str] = []
    for image in globs:
        if not image.endswith("*"):
            left_out.append(
                f"{field}: {image!r} allows this reference alone, and image-sources allows "
                "repositories with all of their tags and digests, so it is refused: add its "
                "repository to sources, if that will do"
            )
            continue
        try:
            sources[image[:-1]] = source_of(image[:-1], field)
        except Untakable as error:
            left_out.append(str(error))
    if not sources:
        raise Untakable("; ".join(left_out))
    result = image_sources(sources, field, kinds)
    result.left_out += left_out
    return result


def digests() -> Untakable:
    """Why images are not required to have digests, and nothing else."""
    return Untakable(
        "image-sources requires digests by require_digest: true, but also sources, which this does "
        "not name: write an instance with the registries that you use"
    )


def source_of(prefix: str, field: str = "parameters.repos") -> str:
    """The registry or repository that a prefix of references means. Raises Untakable, which names
    the field.
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
        raise Untakable(_no_source(prefix, field))
    if not all(parts) or re.search(r"[*?]", prefix) or re.search(r"[:@]", "/".join(segments)):
        raise Untakable(_no_source(prefix, field))
    return "/".join([host.lower(), *segments])


def _may_be_a_tag(host: str) -> bool:
    """Whether a text without a slash may be an image with a tag, such as nginx:1."""
    name, colon, port = host.partition(":")
    return bool(colon) and not (port.isdecimal() and ("." in name or name == "localhost"))


def _no_source(prefix: str, field: str) -> str:
    return (
        f"{field}: the prefix {prefix!r} is not a registry or repository, which is all that "
        "image-sources allows, so all images of it would be refused: write a repository, or a "
        "registry with a slash at its end"
    )


@dataclass
class Amounts:
    """What containers need of `requests` or `limits`: the resources, and the maxima."""

    required: list[str] = field(default_factory=list)
    container_max: dict[str, str] = field(default_factory=dict)


def resource_limits(requests: Amounts, limits: Amounts, kinds: Kinds) -> Parameters:
    """Containers have these requests and limits. Raises Untakable."""
    lists = {"requests": requests, "limits": limits}
    values: dict[str, Any] = {
        name: {
            "required": amounts.required,
            **({"container_max": amounts.container_max} if amounts.container_max else {}),
        }
        for name, amounts in lists.items()
    }
    if not kinds.templates:
        values["templates"] = False
    result = _of_pods("resource-limits", values, kinds)
    result.differences.append(
        "resource-limits counts what a pod sets for all of its containers, and a limit as a "
        "request; a quantity of 0 is none"
    )
    return result


def run_as_user(
    users: Sequence[tuple[int, int]], kinds: Kinds, *, require_user: bool
) -> Parameters:
    """Containers run as a user within one of these ranges. Raises Untakable."""
    ranges = [{"min": max(least, 0), "max": min(most, MOST)} for least, most in users]
    values = {"users": ranges, **({"require_user": True} if require_user else {})}
    result = _of_pods("run-as-user", values, kinds)
    result.differences.append(
        "run-as-user decides by what each container runs as, wherever that is set: a runAsUser "
        "that is allowed is enough, pods of Windows are left alone, and templates of workloads "
        "are checked, too"
    )
    return result


def _of_pods(intent: str, values: dict[str, Any], kinds: Kinds) -> Parameters:
    result = Parameters(intent, values)
    if not any(_is_ours(result, *pair) for pair in kinds.pairs):
        raise Untakable(
            f"{intent} is about pods, which {kinds.field} does not name: name them, or write a "
            "policy (fairlead new policy NAME)"
        )
    return result


def note_foreign_kinds(result: Parameters, kinds: Kinds) -> None:
    """Note the kinds that the intent is not about."""
    foreign = [pair for pair in kinds.pairs if not _is_ours(result, *pair)]
    if foreign:
        names = ", ".join(sorted(f"{group or 'core'}/{kind}" for group, kind in foreign))
        result.left_out.append(
            f"{kinds.field}: {result.intent} takes no kind {names} from it: write a policy "
            "(fairlead new policy NAME), or name custom resources as custom_resources"
            if result.intent == "required-labels"
            else f"{kinds.field}: {result.intent} is not about {names}: write a policy "
            "(fairlead new policy NAME)"
        )


def _may_need_labels(group: str, kind: str) -> bool:
    return group in _VERSIONS and kind != "*" and "/" not in kind


def _is_ours(result: Parameters, group: str, kind: str) -> bool:
    """Whether the intent, with these parameters, is about a kind."""
    if result.intent == "required-labels":
        return _may_need_labels(group, kind)
    if result.intent == "replica-limits":
        scaled = kind.removesuffix("/scale")
        is_of_core = group in ("", "*") and scaled == "ReplicationController"
        return is_of_core or (group in ("apps", "*") and scaled in (*_REPLICATED, "*"))
    return group in ("", "*") and kind in ("Pod", "Pod/ephemeralcontainers", "*")

"""Says whether API servers ask OPA about requests, and if not, why: by the webhooks of a cluster,
or by those that a deployment would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.analysis import webhook_matcher
from fairlead.analysis.webhook_matcher import Matched, Requirement, Verdict
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import PART_OF
from fairlead.policy import bundles
from fairlead.settings.models import Settings

if TYPE_CHECKING:  # the Kubernetes client takes long to load
    from fairlead.clusters.base import Cluster

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
RENDERED = (
    "the cluster has no webhooks of Fairlead: those that a deployment by these settings would "
    "bring count"
)
_GROUP = "admissionregistration.k8s.io/v1"
# The label that API servers give to each namespace, and by which webhooks exempt some.
_NAME = "kubernetes.io/metadata.name"
_SIZE = "small-enough"  # integration/deploy/webhooks/webhook.yaml.j2
_TOO_LARGE = f"matchCondition {_SIZE} is false: the guards of sizes decide on so large an object"
_NOBODY = Credentials("", b"", b"", b"")


@dataclass(frozen=True)
class Webhooks:
    """The configurations of all webhooks that call OPA. They are `deployed` if a cluster has them;
    otherwise a deployment would bring them.
    """

    configurations: tuple[Mapping[str, Any], ...]
    deployed: bool


@dataclass(frozen=True)
class Asked:
    """Whether an API server asks OPA about a request. `reason` says why not, in words.

    The request is `refused` if the API server refuses it instead. If OPA is asked, a reason says
    what that depends on; mostly it is empty.
    """

    asked: bool
    reason: str = ""
    refused: bool = False


def rendered(settings: Settings, folder: Path | None = None) -> Webhooks:
    """The webhooks that a deployment with these settings and the policies of `folder`, or the
    checkout's, brings.
    """
    objects = manifests.render_objects(settings, bundles.bundle(settings, folder), _NOBODY)
    return Webhooks(tuple(each for each in objects if each["kind"] in KINDS), deployed=False)


def of_cluster(cluster: Cluster, settings: Settings, folder: Path | None = None) -> Webhooks:
    """The webhooks of Fairlead in the cluster; if it has none, those that a deployment would bring.
    Needs the right to list webhook configurations. Raises FairleadError if they cannot be listed.
    """
    objects = cluster.objects()
    configurations = [
        configuration
        for kind in KINDS
        for configuration in objects.list(_GROUP, kind, None, f"{PART_OF}=fairlead")
    ]
    if not configurations:
        return rendered(settings, folder)
    return Webhooks(tuple(configurations), deployed=True)


def ask(
    webhooks: Webhooks,
    reviews: Sequence[Any],
    namespaces: Mapping[str, Any],
    *,
    complete: bool = False,
    progress: Progress,
) -> list[Asked]:
    """Whether an API server with these webhooks asks OPA about each of `reviews`, in their order.

    `namespaces` are the namespaces that are known, name -> object; all that there are if they are
    `complete`. One that is not known counts as having the labels that the webhooks want. Raises
    FairleadError if it cannot be told.
    """
    labels = {
        name: (namespace.get("metadata") or {}).get("labels") or {}
        for name, namespace in namespaces.items()
    }
    concerned = {str(_request(review).get("namespace")) for review in reviews}
    matched = webhook_matcher.match(
        webhooks.configurations,
        reviews,
        {name: labels[name] for name in labels.keys() & concerned},
        progress=progress,
    )
    return [
        _asked(review, each, labels if complete else None)
        for review, each in zip(reviews, matched, strict=True)
    ]


def _asked(review: Any, matched: Matched, existing: Mapping[str, Any] | None) -> Asked:
    request = _request(review)
    if matched.unreadable:
        # Whoever asks about such a review wants to know what OPA answers to it.
        return Asked(True, f"no API server sends such a review: {matched.unreadable}")
    if matched.invalid:
        return Asked(
            False, f"an API server does not accept the object: {matched.invalid}", refused=True
        )
    name = request.get("namespace")
    if existing is not None and name and name not in existing and not _is_namespace(request):
        return Asked(False, f'the cluster has no namespace "{name}": create it first', refused=True)
    too_large = any(verdict.condition == _SIZE for verdict in matched.verdicts)
    if too_large and any(verdict.called for verdict in matched.verdicts):
        # The guards come after mutating webhooks and before the validating one that is called.
        return Asked(False, f"{_TOO_LARGE}, and refuse it", refused=True)
    if any(verdict.called for verdict in matched.verdicts):
        rights = next((each for each in matched.verdicts if each.called and each.rights), None)
        return Asked(
            True,
            f"a matchCondition of {rights.webhook} asks for rights of the user, which only an API "
            "server knows"
            if rights
            else "",
        )
    if not matched.verdicts:
        return Asked(False, "there are no webhooks")
    # The webhooks that came closest to being called tell the most.
    last = max(webhook_matcher.PARTS.index(verdict.by) for verdict in matched.verdicts)
    closest = [each for each in matched.verdicts if webhook_matcher.PARTS.index(each.by) == last]
    return Asked(
        False,
        "; ".join(dict.fromkeys(_reason(request, verdict) for verdict in closest)),
        refused=any(verdict.refused for verdict in matched.verdicts),
    )


def _reason(request: Mapping[str, Any], verdict: Verdict) -> str:
    """Why the webhook is not called."""
    if verdict.by == webhook_matcher.RESOURCE:
        return f"no webhook is for {_resources(request)}"
    if verdict.by == webhook_matcher.OPERATION:
        return f"no webhook is for {request['operation']} of {_resources(request)}"
    if verdict.by == webhook_matcher.NAMESPACE_SELECTOR:
        name = request.get("namespace") or request.get("name")
        return _of_namespace(f'namespace "{name}"', verdict.requirements)
    if verdict.by == webhook_matcher.OBJECT_SELECTOR:
        return _of_labels("the object", verdict.requirements)
    if verdict.condition == _SIZE:
        return _TOO_LARGE
    if verdict.condition:
        return f"matchCondition {verdict.condition} is false"
    policy = "Fail" if verdict.refused else "Ignore"
    error = " ".join(verdict.error.split())
    return (
        f"the matchConditions of {verdict.webhook} cannot be evaluated, and its failurePolicy is "
        f"{policy}: {error}"
    )


def _resources(request: Mapping[str, Any]) -> str:
    """The resource that is requested, in the plural of its kind: ConfigMaps, or pods/exec."""
    kind = (request.get("requestKind") or request["kind"])["kind"]
    resource = str((request.get("requestResource") or request["resource"])["resource"])
    if request.get("subResource"):
        return f"{resource}/{request['subResource']}"
    common = "".join(
        letter
        for letter, _ in takewhile(
            lambda pair: pair[0].lower() == pair[1], zip(kind, resource, strict=False)
        )
    )
    return common + resource[len(common) :]


def _of_namespace(what: str, requirements: Sequence[Requirement]) -> str:
    by_name = [requirement for requirement in requirements if requirement.key == _NAME]
    if not by_name:
        return _of_labels(what, requirements)
    return f"{what} is exempt"


def _of_labels(what: str, requirements: Sequence[Requirement]) -> str:
    return " and ".join(_requirement(what, requirement) for requirement in requirements)


def _requirement(what: str, requirement: Requirement) -> str:
    key, actual = requirement.key, requirement.actual
    if not key:
        return f"the webhooks select no labels at all, so not {what}"
    if actual is None:
        return f"{what} has no label {key}"
    if actual == "":
        return f"label {key} of {what} is empty"
    wanted = (
        f", not one of {', '.join(requirement.values)}"
        if requirement.operator in ("in", "=", "==")
        else ""
    )
    return f'label {key} of {what} is "{actual}"{wanted}'


def _is_namespace(request: Mapping[str, Any]) -> bool:
    resource = request.get("requestResource") or request["resource"]
    return (resource.get("group", ""), resource["resource"]) == ("", "namespaces")


def _request(review: Any) -> Mapping[str, Any]:
    request = review.get("request") if isinstance(review, dict) else None
    return request if isinstance(request, dict) else {}

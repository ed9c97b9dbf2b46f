"""Says whether API servers ask OPA about requests, and if not, why: by the webhooks of a cluster,
or by those that a deployment would bring."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairlead.admission import reduced_reviews, webhook_matcher
from fairlead.admission.webhook_matcher import Matched, Requirement, Verdict
from fairlead.common.progress import Progress
from fairlead.deployment import disabled_objects, manifests, ownership
from fairlead.deployment.names import WEBHOOKS
from fairlead.deployment.webhooks import INTENTS
from fairlead.inputs import manifest_files
from fairlead.kube import admission_reviews
from fairlead.policy.policy_set import PolicySet

if TYPE_CHECKING:  # the Kubernetes client takes long to load
    from fairlead.clusters.base import Cluster
    from fairlead.kube.clients import Objects

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_OTHERS = "those that a deployment by these settings would bring count"
_GROUP = "admissionregistration.k8s.io/v1"
# The label that API servers give to each namespace, and by which webhooks exempt some.
_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True)
class Webhooks:
    """The configurations of all webhooks that call the engine. They are `deployed` if a cluster has
    them; otherwise a deployment would bring them. It would bring those of the `undeployed` intents
    in any case.
    """

    configurations: tuple[Mapping[str, Any], ...]
    deployed: bool
    undeployed: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Which webhooks count although the cluster does not have them; empty if there are none."""
        if not self.deployed:
            return f"the cluster has no webhooks of Fairlead: {_OTHERS}"
        if self.undeployed:
            return f"the cluster has no webhooks of {', '.join(self.undeployed)}: {_OTHERS}"
        return ""


@dataclass(frozen=True)
class Call:
    """A webhook that calls OPA, for the decision of one intent; None for that of all. With
    `ignore`, an answer that the API server does not accept counts as none.
    """

    webhook: str
    intent: str | None
    mutating: bool
    ignore: bool


@dataclass(frozen=True)
class Asked:
    """Whether an API server asks OPA about a request, by which `calls`. `reason` says why not, in
    words.

    The request is `refused` if the API server refuses it instead. If OPA is asked, a reason says
    what that depends on; mostly it is empty.
    """

    asked: bool
    reason: str = ""
    refused: bool = False
    calls: tuple[Call, ...] = ()

    def question(self, review: Any) -> Any:
        """The review as OPA gets it: reduced if an object is too large, and with the intents that
        the webhooks ask for; without any if OPA is not asked, or asked for all.
        """
        asked_for = {call.intent for call in self.calls}
        review = reduced_reviews.reduced(review)
        if not asked_for or None in asked_for or not isinstance(review, dict):
            return review
        return {**review, "intents": sorted(map(str, asked_for))}

    def asks_for(self, intents: Collection[str]) -> bool:
        """Whether webhooks ask for the decision of each of these intents."""
        asked_for = {call.intent for call in self.calls}
        return not asked_for or None in asked_for or asked_for.issuperset(intents)

    def unpatched(self, patching: Collection[str]) -> tuple[set[str], str]:
        """Of the intents that return a patch, those that no mutating webhook asks for, and the
        error for which the API server refuses the request; empty if it only drops the patch.

        API servers accept no patch from a validating webhook.
        """
        mutated = {call.intent for call in self.calls if call.mutating}
        if not self.calls or None in mutated:
            return set(), ""
        unpatched = {intent for intent in patching if intent not in mutated}
        failing = (
            call.webhook
            for call in self.calls
            if not (call.mutating or call.ignore) and call.intent in {*unpatched, None}
        )
        webhook = next(failing, None) if unpatched else None
        error = (
            f"webhook {webhook} is a validating one, and its intent returns a patch, which the API "
            "server does not accept: a mutating webhook has to ask for it, too"
        )
        return unpatched, error if webhook else ""


def rendered(policies: PolicySet) -> Webhooks:
    """The webhooks that a deployment of these policies brings."""
    return of_objects(manifests.render_webhooks(policies))


def of_objects(objects: Sequence[Mapping[str, Any]]) -> Webhooks:
    """The webhooks among the objects that a deployment would bring."""
    return _webhooks(objects, deployed=False)


def of_cluster(cluster: Cluster, policies: PolicySet) -> Webhooks:
    """The webhooks of Fairlead in the cluster; if it has none, those that a deployment would bring.
    Needs the right to list webhook configurations. Raises FairleadError if they cannot be listed.
    """
    objects = cluster.objects()
    items = [{**item, "kind": kind} for kind in KINDS for item in objects.list(_GROUP, kind, None)]
    webhooks = _webhooks(
        [item for item in items if ownership.is_ours(item["kind"], item)], deployed=True
    )
    return webhooks if webhooks.configurations else rendered(policies)


def in_force(objects: Objects) -> Webhooks:
    """The webhooks of Fairlead in a cluster, which may have none. Needs the right to read them by
    name alone. Raises ApiServerError.
    """
    items = [(kind, objects.get(_GROUP, kind, WEBHOOKS)) for kind in KINDS]
    return _webhooks([{**item, "kind": kind} for kind, item in items if item], deployed=True)


def foreseen(cluster: Cluster, policies: PolicySet) -> Webhooks:
    """The webhooks of Fairlead in the cluster, and those that a deployment would bring for intents
    that have none there. Raises FairleadError if they cannot be listed.
    """
    return completed(of_cluster(cluster, policies), policies)


def completed(webhooks: Webhooks, policies: PolicySet) -> Webhooks:
    """The webhooks, with those that a deployment would bring for intents that have none of them."""
    present = [
        webhook
        for configuration in webhooks.configurations
        for webhook in configuration.get("webhooks") or ()
    ]
    asked_for = {_intent(webhook) for webhook in present}
    for_all = any(_path(webhook) in ("", "/") for webhook in present)
    undeployed = [each.name for each in policies.active if each.name not in asked_for]
    if for_all or not undeployed or not webhooks.deployed:
        return webhooks
    brought = tuple(
        {
            **configuration,
            "metadata": {"name": f"{configuration['metadata']['name']}-undeployed"},
            "webhooks": [
                webhook for webhook in configuration["webhooks"] if _intent(webhook) in undeployed
            ],
        }
        for configuration in rendered(policies).configurations
    )
    return Webhooks((*webhooks.configurations, *brought), True, tuple(undeployed))


def _webhooks(objects: Sequence[Mapping[str, Any]], *, deployed: bool) -> Webhooks:
    return Webhooks(tuple(item for item in objects if item["kind"] in KINDS), deployed)


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
    concerned = {str(admission_reviews.request_of(review).get("namespace")) for review in reviews}
    matched = webhook_matcher.match(
        webhooks.configurations,
        reviews,
        {name: labels[name] for name in labels.keys() & concerned},
        progress=progress,
    )
    asked_for = {
        (configuration["kind"], configuration["metadata"]["name"], number): _intent(webhook)
        for configuration in webhooks.configurations
        for number, webhook in enumerate(configuration.get("webhooks") or ())
    }
    return [
        _asked(review, configuration, asked_for, labels if complete else None)
        for review, configuration in zip(reviews, matched, strict=True)
    ]


def _intent(webhook: Mapping[str, Any]) -> str | None:
    """The intent whose decision the webhook asks for, by its path; None for that of all."""
    path = _path(webhook)
    return path.removeprefix(INTENTS) if path.startswith(INTENTS) else None


def _path(webhook: Mapping[str, Any]) -> str:
    client = webhook.get("clientConfig") or {}
    path = urlsplit(client.get("url") or "").path or (client.get("service") or {}).get("path")
    return str(path or "")


def _asked(
    review: Any,
    matched: Matched,
    asked_for: Mapping[tuple[str, str, int], str | None],
    existing: Mapping[str, Any] | None,
) -> Asked:
    request = admission_reviews.request_of(review)
    if matched.unreadable:
        # Whoever asks about such a review wants to know what OPA answers to it.
        return Asked(True, f"no API server sends such a review: {matched.unreadable}")
    if matched.invalid:
        reason = f"an API server does not accept the object: {matched.invalid}"
        if variables := manifest_files.variables(request.get("object")):
            names = ", ".join(variables)
            reason += f"; it has variables ({names}): name the manifests with their values"
        return Asked(False, reason, refused=True)
    name = request.get("namespace")
    if not name and admission_reviews.belongs_to_namespace(request):
        reason = f"it has no namespace, to which all {_resources(request)} belong"
        return Asked(True, f"no API server sends such a review: {reason}")
    if existing is not None and name and name not in existing and not _is_namespace(request):
        return Asked(False, f'the cluster has no namespace "{name}": create it first', refused=True)
    verdicts = matched.verdicts
    if refused := [verdict for verdict in verdicts if verdict.refused]:
        return Asked(False, _reasons(request, refused), refused=True)
    if called := [verdict for verdict in verdicts if verdict.called]:
        rights = next((verdict for verdict in called if verdict.rights), None)
        return Asked(
            True,
            f"a matchCondition of {rights.webhook} asks for rights of the user, which only an API "
            "server knows"
            if rights
            else "",
            calls=tuple(
                Call(
                    call.webhook,
                    asked_for[call.kind, call.configuration, call.number],
                    call.kind == KINDS[0],
                    call.ignore,
                )
                for call in called
            ),
        )
    if not verdicts:
        return Asked(False, "there are no webhooks")
    # The webhooks that came closest to being called tell the most.
    last = max(webhook_matcher.PARTS.index(verdict.by) for verdict in verdicts)
    closest = [call for call in verdicts if webhook_matcher.PARTS.index(call.by) == last]
    return Asked(False, _reasons(request, closest))


def _reasons(request: Mapping[str, Any], verdicts: Sequence[Verdict]) -> str:
    return "; ".join(dict.fromkeys(_reason(request, verdict) for verdict in verdicts))


def _reason(request: Mapping[str, Any], verdict: Verdict) -> str:
    """Why the webhook is not called."""
    if verdict.by == webhook_matcher.RESOURCE:
        return f"no webhook is for {_resources(request)}"
    if verdict.by == webhook_matcher.OPERATION:
        return f"no webhook is for {request['operation']} of {_resources(request)}"
    if verdict.by == webhook_matcher.NAMESPACE_SELECTOR:
        name = request.get("namespace") or request.get("name")
        if pool := _declared_pool(request, verdict):
            return f'"{pool}" is a declared pool, so there is nothing to check'
        return _of_namespace(f'namespace "{name}"', verdict.requirements)
    if verdict.by == webhook_matcher.OBJECT_SELECTOR:
        if any(requirement.key == disabled_objects.MARK for requirement in verdict.requirements):
            intent = disabled_objects.intent_of(verdict.webhook)
            return f"{intent} is disabled: `fairlead enable` ends this"
        return _of_labels("the object", verdict.requirements)
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


def _declared_pool(request: Mapping[str, Any], verdict: Verdict) -> str | None:
    """The declared pool that a Namespace names; None for other requests: node-pool asks only about
    namespaces with pools that are not declared.
    """
    if not _is_namespace(request) or disabled_objects.intent_of(verdict.webhook) != "node-pool":
        return None
    pools = (each.actual for each in verdict.requirements if each.operator == "notin")
    return next(filter(None, pools), None)


def _of_namespace(subject: str, requirements: Sequence[Requirement]) -> str:
    by_name = [requirement for requirement in requirements if requirement.key == _NAME]
    if not by_name:
        return _of_labels(subject, requirements)
    return f"{subject} is exempt"


def _of_labels(subject: str, requirements: Sequence[Requirement]) -> str:
    return " and ".join(_requirement(subject, requirement) for requirement in requirements)


def _requirement(subject: str, requirement: Requirement) -> str:
    key, actual = requirement.key, requirement.actual
    if not key:
        return f"the webhooks select no labels at all, so not {subject}"
    if actual is None:
        return f"{subject} has no label {key}"
    if actual == "":
        return f"label {key} of {subject} is empty"
    expectation = (
        f", not one of {', '.join(requirement.values)}"
        if requirement.operator in ("in", "=", "==")
        else ""
    )
    return f'label {key} of {subject} is "{actual}"{expectation}'


def _is_namespace(request: Mapping[str, Any]) -> bool:
    resource = request.get("requestResource") or request["resource"]
    return (resource.get("group", ""), resource["resource"]) == ("", "namespaces")

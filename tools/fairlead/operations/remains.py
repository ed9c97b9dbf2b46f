"""What is left of Fairlead in a cluster in which nothing of it runs: objects without a namespace,
for example after somebody deleted the namespace `fairlead`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.common import texts
from fairlead.deployment import ownership
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import clients
from fairlead.operations import drift, transient_access

_GROUP = "admissionregistration.k8s.io/v1"
_ENFORCING = (
    *drift.WEBHOOKS,
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
)
"""The kinds of objects by which API servers enforce something."""


@dataclass(frozen=True)
class Remains:
    """Webhooks and bindings of admission policies, the number of transient bindings that are in
    force, and whether there is a namespace `fairlead`.
    """

    objects: tuple[Mapping[str, Any], ...] = ()
    access: int = 0
    namespace: bool = True

    def sentences(self) -> Iterator[str]:
        """What is left, and what follows from it; none if nothing is left."""
        why = "nothing runs there" if self.namespace else "the namespace is gone"
        webhooks = [each for each in self.objects if each["kind"] in drift.WEBHOOKS]
        bindings = [each for each in self.objects if each["kind"] not in drift.WEBHOOKS]
        if webhooks:
            fails = any(
                webhook.get("failurePolicy") == "Fail"
                for each in webhooks
                for webhook in each.get("webhooks") or ()
            )
            effect = (
                "API servers refuse the requests that they are about, such as new pods of mapped "
                "namespaces"
                if fails
                else "API servers go on without an answer, so that pods are created unplaced"
            )
            yield (
                f"webhooks ask OPA in the namespace {NAMESPACE}, but {why}, so {effect} "
                f"({_names(webhooks)})"
            )
        if bindings:
            yield (f"admission policies are still in force ({_names(bindings)})")
        if self.access:
            yield (
                f"{texts.counted(self.access, 'transient binding')} "
                f"{'is' if self.access == 1 else 'are'} in force without the controller: "
                "nothing ends them"
            )


def of_cluster(objects: clients.Objects) -> Remains:
    """What is left, as far as the user may see it. Raises ApiServerError."""
    left = [
        {**each, "kind": kind}
        for kind in _ENFORCING
        for each in objects.visible(_GROUP, kind, None)
        if ownership.is_ours(kind, each)
    ]
    has_namespace = objects.get("v1", "Namespace", NAMESPACE) is not None
    return Remains(tuple(left), len(transient_access.in_force(objects)), has_namespace)


def _names(manifests: list[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['kind']} {each['metadata']['name']}" for each in manifests)

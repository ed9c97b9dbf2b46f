"""The objects by which API servers enforce policies themselves: which of them a cluster has, and
which an engine's revision needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.deployment import ownership
from fairlead.deployment.names import INTENT_LABEL, PARAMETERS_GROUP
from fairlead.engines.live import custom_resources
from fairlead.kube import clients, own_kinds
from fairlead.operations.strategies.base import Key

ADMISSION = "admissionregistration.k8s.io/v1"
_DEFINITION = "CustomResourceDefinition"
_EXTENSIONS = "apiextensions.k8s.io/v1"
POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
BINDINGS = tuple(f"{kind}Binding" for kind in POLICIES)
_PREFIX = "fairlead."
"""How the names of the objects of intents begin; those of guards begin with `fairlead-`."""
_OF_PEOPLE = {
    f"{plural}.{PARAMETERS_GROUP}"
    for plural in (
        own_kinds.FAIRLEADS[0],
        own_kinds.POLICIES[0],
        own_kinds.EXCEPTIONS[0],
        "placementpolicies",
    )
}
"""The kinds of objects that belong to people. Those of the last one have no effect any more, and
would be lost with it."""
Objects = Sequence[Mapping[str, Any]]


def definitions(objects: Objects) -> list[Mapping[str, Any]]:
    """The kinds of parameters among the objects of a revision."""
    return [
        item
        for item in objects
        if item["kind"] == _DEFINITION and item["metadata"]["name"] not in _OF_PEOPLE
    ]


def bindings(objects: Objects) -> list[Mapping[str, Any]]:
    """What puts the policies of intents in force."""
    return [item for item in objects if item["kind"] in BINDINGS and _of_intent(item)]


def prepared(objects: Objects) -> list[Mapping[str, Any]]:
    """The policies of intents and their parameters."""
    return [item for item in objects if item["kind"] not in BINDINGS and _of_intent(item)]


def guards(objects: Objects) -> list[Mapping[str, Any]]:
    """What protects Fairlead's objects, and the kinds of people's objects; the policies' ConfigMap
    is none of them.
    """
    kinds = definitions(objects)
    return [
        item
        for item in objects
        if not _of_intent(item) and item["kind"] != "ConfigMap" and item not in kinds
    ]


def _of_intent(manifest: Mapping[str, Any]) -> bool:
    return INTENT_LABEL in (manifest["metadata"].get("labels") or {})


def all_keys(objects: clients.Objects) -> list[Key]:
    """All such objects of a cluster, the bindings first. Parameters go with their kinds."""
    return [
        *other_keys(objects, BINDINGS, ()),
        *other_keys(objects, POLICIES, ()),
        *_other_definitions(objects, ()),
    ]


def intent_bindings(keys: Iterable[Key]) -> list[Key]:
    """The bindings of intents among objects of all kinds; guards have bindings, too."""
    return [key for key in keys if key[1] in BINDINGS and key[2].startswith(_PREFIX)]


def superseded(objects: clients.Objects, new: Objects) -> Iterator[Key]:
    """The policies and parameters that are not `new`. Those stay that a binding still names, of a
    deployment that was held up.
    """
    remaining = (*prepared(new), *_bound(objects))
    yield from other_keys(objects, POLICIES, remaining)
    kinds = definitions(new)
    yield from _other_definitions(objects, kinds)
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in remaining}
    for definition in {manifest["metadata"]["name"]: manifest for manifest in kinds}.values():
        version, kind = custom_resources.identity(definition)
        for item in objects.visible(version, kind, None, ownership.SELECTOR):
            if (kind, item["metadata"]["name"]) not in names:
                yield version, kind, item["metadata"]["name"], None


def _bound(objects: clients.Objects) -> Iterator[dict[str, Any]]:
    """What the bindings of the cluster name, as {kind, metadata: {name}}."""
    for kind in BINDINGS:
        for item in _of_intents(objects, kind):
            policy = kind.removesuffix("Binding")
            yield {"kind": policy, "metadata": {"name": item["spec"]["policyName"]}}


def other_keys(
    objects: clients.Objects, kinds: Sequence[str], manifests: Iterable[Mapping[str, Any]]
) -> list[Key]:
    """The objects of intents of these kinds that are not among `manifests`."""
    names = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    return [
        (ADMISSION, kind, name, None)
        for kind in kinds
        for item in _of_intents(objects, kind)
        for name in [str(item["metadata"]["name"])]
        if (kind, name) not in names
    ]


def _of_intents(objects: clients.Objects, kind: str) -> list[dict[str, Any]]:
    """Fairlead's objects of this kind that belong to intents, also if somebody took their labels
    away.
    """
    return [
        item
        for item in objects.visible(ADMISSION, kind, None)
        if item["metadata"]["name"].startswith(_PREFIX) and ownership.is_ours(kind, item)
    ]


def _other_definitions(
    objects: clients.Objects, needed_kinds: Iterable[Mapping[str, Any]]
) -> Iterator[Key]:
    """The kinds of parameters that are not among `needed_kinds`."""
    names = {*_OF_PEOPLE, *(manifest["metadata"]["name"] for manifest in needed_kinds)}
    for item in objects.visible(_EXTENSIONS, _DEFINITION, None, ownership.SELECTOR):
        name = str(item["metadata"]["name"])
        if name.endswith(f".{PARAMETERS_GROUP}") and name not in names:
            yield _EXTENSIONS, _DEFINITION, name, None

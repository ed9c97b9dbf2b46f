"""Says where the objects without pods are: with the workloads of their namespace, as far as their
customer may be there.

What nobody can tell of an object is an error, so that nothing crosses a border unplaced.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.common.yaml_files import Document
from fairlead.placement import autoscalers, manifest_kinds, wishes
from fairlead.placement.autoscalers import Autoscaler
from fairlead.placement.manifest_kinds import Scopes, Sorted, mapping
from fairlead.placement.placements import Placement
from fairlead.placement.questions import Question

_NAMESPACE = ("", "Namespace")
_READ = (*wishes.STATED, wishes.SELECTOR)
_ASKING = ("replica-set-preferences", wishes.SELECTOR)
"""Whoever says one of these of an object, decides about it apart from all others."""
_UNDECIDED = "object"
ABSENT = "no workload that it belongs to is there"
"""The explanation of a cluster without such a workload."""


class Questions:
    """What OPA is asked about the objects that run no pods, each different question once; and where
    they are, by the answers.
    """

    def __init__(self, parts: Sorted) -> None:
        self._scopes = Scopes((*parts.others, *parts.workloads))
        self._others = parts.others
        self._targets = {
            id(autoscaler.document): (key, autoscaler)
            for key, autoscaler in autoscalers.of(parts.others).items()
        }
        by_text: dict[str, Question] = {}
        for document, resource in (
            *((document, self._resource(document)) for document in parts.others),
            *((document, _object(_namespace_of(document))) for document in parts.workloads),
        ):
            by_text.setdefault(_text(resource), Question(document, resource))
        self._texts = list(by_text)
        self.asked = list(by_text.values())

    def placed(
        self, workloads: Sequence[Placement], answers: Sequence[Mapping[str, Any]]
    ) -> list[Placement]:
        """Where each object is, and the workloads, which know then whether all that is in their
        namespace may be where they are. `answers` are those to `asked`.
        """
        by_text = {
            text: question.read(answer)
            for text, question, answer in zip(self._texts, self.asked, answers, strict=True)
        }
        homes = _Homes(workloads)
        others = [
            self._placed(document, by_text[_text(self._resource(document))], homes)
            for document in self._others
        ]
        by_namespace = _by_namespace([*workloads, *others])
        placed = []
        for workload in workloads:
            home = by_text[_text(_object(workload.namespace))]
            carries = _carries(workload, home, by_namespace[workload.namespace])
            placed.append(replace(workload, carries=carries))
        return placed + [
            _as_namespace(other, by_namespace) if _is_namespace(other) else other
            for other in others
        ]

    def _placed(self, document: Document, own: Placement, homes: _Homes) -> Placement:
        """The object where its workloads are; `own` is the decision about itself."""
        scope = self._scopes.is_namespaced(document.value)
        own = replace(
            own, document=document, namespaced=scope is not False, follows=True, replicas={}
        )
        if scope is None:
            return _failed(
                own,
                "nobody can tell whether its kind belongs to a namespace: add its "
                "CustomResourceDefinition, or metadata.namespace",
            )
        if _is_namespace(own) or _asks(document.value):
            return own
        if id(document) in self._targets:
            key, autoscaler = self._targets[id(document)]
            if target := homes.workload(key):
                if not _names_customer(document.value):  # it holds nothing of its namespace's
                    own = replace(own, errors={}, customer=target.customer, lawful=target.lawful)
                return _scaling(_following(own, [target]), target, autoscaler)
        return _following(own, homes.of(own))

    def _resource(self, document: Document) -> dict[str, Any]:
        """What OPA has to know of an object without pods: what it says, and its namespace."""
        metadata = document.value.get("metadata") or {}
        said = {
            field: {
                key: value for key, value in mapping(metadata.get(field)).items() if key in keys
            }
            for field, keys in (("annotations", _READ), ("labels", wishes.STATED))
        }
        return _object(self._home(document.value), **said)

    def _home(self, manifest: Mapping[str, Any]) -> str:
        """The namespace that says whose the object is; empty if none does."""
        if self._scopes.is_namespaced(manifest) is not False:
            return manifest_kinds.namespace_of(manifest.get("metadata") or {})
        claim = mapping(mapping(manifest.get("spec")).get("claimRef"))  # of a PersistentVolume
        return str(claim.get("namespace") or "")


class _Homes:
    """The workloads that objects belong to."""

    def __init__(self, workloads: Sequence[Placement]) -> None:
        self._workloads = workloads
        self._by_key = {autoscalers.key_of(each.document.value): each for each in workloads}
        self._by_namespace = _by_namespace(workloads)

    def workload(self, key: autoscalers.Key) -> Placement | None:
        """The workload of this key; None without one."""
        return self._by_key.get(key)

    def of(self, other: Placement) -> list[Placement]:
        """The workloads of the object's namespace, or else those of its customer; all, for one that
        belongs to no namespace.
        """
        if not other.namespaced:
            return list(self._workloads)
        return self._by_namespace.get(other.namespace) or [
            each
            for each in self._workloads
            if other.customer is not None and each.customer == other.customer
        ]


def _by_namespace(placements: Iterable[Placement]) -> dict[str, list[Placement]]:
    by_namespace: dict[str, list[Placement]] = {}
    for placement in placements:
        by_namespace.setdefault(placement.namespace, []).append(placement)
    return by_namespace


def _carries(workload: Placement, home: Placement, neighbours: Sequence[Placement]) -> bool:
    """Whether all objects of its namespace may be where the workload is; `home` is the decision
    about one that says nothing itself.
    """
    targets = frozenset(workload.targets)
    leaders = [each for each in neighbours if not each.follows]
    return (home.customer is None or targets <= home.lawful) and all(
        targets <= _permitted(other, leaders, targets) for other in neighbours if other.follows
    )


def _permitted(
    other: Placement, leaders: Sequence[Placement], wanted: frozenset[str]
) -> frozenset[str]:
    """Those of the wanted clusters, at least, where the object may be."""
    if _asks(other.document.value):
        return frozenset(other.targets)
    return other.lawful if other.customer is not None else _lawful_for_all(other, leaders, wanted)


def _following(own: Placement, leaders: Sequence[Placement]) -> Placement:
    """The object where these workloads are, and where its customer may be."""
    if failed := next((leader for leader in leaders if leader.errors), None):
        return _failed(own, f"it belongs to {failed.title}, which cannot be placed")
    if "customer" in own.errors and own.customer is not None:
        return replace(own, clusters={}, fields={})
    wanted = {name for leader in leaders for name in leader.targets}
    if not wanted:
        return own if own.customer is not None else _failed(own, _NOBODYS)
    lawful = own.lawful if own.customer is not None else _lawful_for_all(own, leaders, wanted)
    allowed = sorted(wanted & lawful)
    if own.customer is None and wanted - lawful:
        return _failed(own, _AMBIGUOUS.format(", ".join(sorted(wanted - lawful))))
    if not allowed:
        why = "; ".join(f"{name}: {own.explanation.get(name)}" for name in sorted(wanted))
        return _failed(own, f"it may be nowhere where its workloads are ({why})")
    return replace(
        own,
        clusters=dict.fromkeys(allowed, 1),
        errors={},
        explanation={name: _reason(name, own, wanted, lawful) for name in sorted(own.explanation)},
        fields={},
    )


_NOBODYS = (
    "it names no customer, and neither does its namespace, which has no workload either: set the "
    "annotation or label customer"
)
_AMBIGUOUS = (
    "it names no customer, and neither does its namespace, whose workloads are of several: "
    "in {}, not all of them may be. Set the annotation or label customer"
)


def _lawful_for_all(
    own: Placement, leaders: Iterable[Placement], wanted: Iterable[str]
) -> frozenset[str]:
    """The clusters where an object of nobody may be: data of any customer of its workloads may be
    there. What Kubernetes itself defines for a whole cluster belongs to no customer.
    """
    lawful = frozenset(wanted)
    if not own.namespaced and not _may_be_of_customer(own.document.value):
        return lawful
    for leader in leaders:
        if leader.customer is not None:
            lawful &= leader.lawful
    return lawful


def _may_be_of_customer(manifest: Mapping[str, Any]) -> bool:
    """Whether an object of a whole cluster may hold what belongs to a customer."""
    return not manifest_kinds.is_of_kubernetes(manifest) or manifest["kind"] == "PersistentVolume"


def _reason(name: str, own: Placement, wanted: set[str], lawful: frozenset[str]) -> str:
    if name not in wanted:
        return ABSENT
    return "allowed" if name in lawful else own.explanation[name]


def _scaling(own: Placement, target: Placement, autoscaler: Autoscaler) -> Placement:
    """An autoscaler with its share of the replicas in each cluster of its target."""
    if own.errors or len(target.targets) < 2 or not target.most:
        return own
    (least, _), (most, _) = autoscaler.least, autoscaler.most
    fields = {
        name: {
            least: target.replicas[name],
            most: max(target.most[name], target.replicas[name], 1),
        }
        for name in own.clusters
    }
    return replace(own, fields=fields)


def _as_namespace(other: Placement, by_namespace: Mapping[str, Sequence[Placement]]) -> Placement:
    """A namespace, which is where anything in it is."""
    name = str((other.document.value.get("metadata") or {}).get("name"))
    clusters = sorted({target for each in by_namespace.get(name, ()) for target in each.targets})
    return replace(other, clusters=dict.fromkeys(clusters, 1), errors={}, fields={})


def _is_namespace(other: Placement) -> bool:
    return manifest_kinds.kind_of(other.document.value) == _NAMESPACE


def _asks(manifest: Mapping[str, Any]) -> bool:
    metadata = manifest.get("metadata") or {}
    return any(
        key in mapping(metadata.get(field))
        for field in ("annotations", "labels")
        for key in _ASKING
    )


def _names_customer(manifest: Mapping[str, Any]) -> bool:
    metadata = manifest.get("metadata") or {}
    return any("customer" in mapping(metadata.get(field)) for field in ("annotations", "labels"))


def _failed(own: Placement, sentence: str) -> Placement:
    return replace(own, clusters={}, fields={}, errors={_UNDECIDED: [sentence]})


def _object(namespace: str, **said: Mapping[str, Any]) -> dict[str, Any]:
    """An object without pods, as OPA is asked about it."""
    metadata = {"namespace": namespace, **{field: each for field, each in said.items() if each}}
    return {"apiVersion": "v1", "kind": "Object", "metadata": metadata}


def _namespace_of(document: Document) -> str:
    return manifest_kinds.namespace_of(document.value.get("metadata") or {})


def _text(resource: Mapping[str, Any]) -> str:
    return json.dumps(resource, sort_keys=True, default=str)

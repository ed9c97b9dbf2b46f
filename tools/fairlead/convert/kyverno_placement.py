"""Reads what Kyverno's MutatingPolicies give pods, by the labels of their namespaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Location
from fairlead.convert import patches
from fairlead.convert.cel import Node
from fairlead.convert.cel_values import (
    ANY_OTHER,
    Absent,
    Evaluation,
    Unknown,
    asked_labels,
    compared_texts,
)
from fairlead.convert.findings import (
    REPLACED,
    Copy,
    Everywhere,
    Findings,
    Labelled,
    Named,
    Target,
    each_once,
    origin_of,
)
from fairlead.convert.kyverno_scope import in_namespace
from fairlead.convert.patches import Patched
from fairlead.convert.reading import AnySelector
from fairlead.convert.targets import NAME_LABEL, Untakable, selected, targets
from fairlead.deployment.names import EXEMPT
from fairlead.kube import labels


@dataclass(frozen=True)
class Reader:
    """Reads one policy: its mutations, with the places where they stand, its conditions, and the
    namespaces that it selects; `namespace` is the only one of a policy in a namespace.
    """

    document: yaml_files.Document
    mutations: Sequence[tuple[Location, Node]]
    conditions: Sequence[Node]
    selector: AnySelector | None
    namespace: str | None

    def collect(self, findings: Findings) -> None:
        """Add what pods get. Raises Untakable, InputError."""
        before = _size(findings)
        self._collect(findings)
        if _size(findings) == before:
            raise Untakable(
                "it gives pods no nodeSelector and no tolerations, as far as convert can tell: "
                "declare the pools, if it does (docs/node-pool.md)"
            )

    def _collect(self, findings: Findings) -> None:
        nodes = [*self.conditions, *(node for _, node in self.mutations)]
        keys = sorted({key for node in nodes for key in asked_labels(node)})
        if len(keys) > 1:
            raise Untakable(
                f"it reads several labels of the namespace ({', '.join(keys)}), and Fairlead finds "
                "the pool of a namespace by one: make pools of their combinations"
            )
        if not keys:
            self._place(findings, self._given({}), targets([], self.selector))
            return
        (key,) = keys
        compared = {text for node in nodes for text in compared_texts(node) if _is_value(text)}
        self._by_label(findings, key, sorted(compared))

    def _by_label(self, findings: Findings, key: str, compared: Sequence[str]) -> None:
        """Add what pods get by the label of their namespace, which `compared` values it is compared
        with.
        """
        values = self._selected_values(key)
        given = {value: self._given({key: value}) for value in values or compared}
        if values is None:
            other = self._given({key: ANY_OTHER})
            absent = Patched() if selected(self.selector).expressions else self._given({})
            if all(each == absent for each in (other, *given.values())):
                self._place(findings, absent, [Everywhere()])
                return
            if not absent.assignment().empty:
                raise Untakable(
                    f"it places pods of namespaces without the label {key}, too, and differently: "
                    "declare pools and a defaultPool"
                )
            if key == NAME_LABEL and all(each in (other, Patched()) for each in given.values()):
                excluded = frozenset(value for value, each in given.items() if each != other)
                self._place(findings, other, [Everywhere(excluded - frozenset(EXEMPT))])
                return
            given = {
                value: each for value, each in given.items() if each != _with_value(other, value)
            }
            self._copy(findings, key, other)
        for value, patched in given.items():
            target = Named(value) if key == NAME_LABEL else Labelled(key, value)
            self._place(findings, patched, [target])

    def _selected_values(self, key: str) -> list[str] | None:
        """The values of the label in the selected namespaces; None for all. Raises Untakable."""
        requirements = selected(self.selector).expressions
        if not requirements or [(each.key, each.operator) for each in requirements] == [
            (key, "Exists")
        ]:
            return None
        if {each.key for each in requirements} != {key}:
            others = ", ".join(sorted({each.key for each in requirements} - {key}))
            raise Untakable(
                f"it selects namespaces by {others}, and reads their label {key}, and Fairlead "
                "finds the pool of a namespace by one: make pools of their combinations"
            )
        chosen = targets([], self.selector)
        return [_value(target) for target in chosen]

    def _copy(self, findings: Findings, key: str, other: Patched) -> None:
        """Add that the label of a namespace names the node label of its pods. Raises Untakable."""
        if other.assignment().empty:
            return
        copied = [name for name, value in other.node_selector.items() if value == ANY_OTHER]
        if len(copied) != 1 or other.tolerations or len(other.node_selector) > 1:
            raise Untakable(
                f"it places the pods of every value of the label {key}, and not by that value "
                "alone: declare pools with these values"
            )
        if key == NAME_LABEL or self.namespace:
            raise Untakable(
                "it gives pods the name of their namespace, and a pool has constants: declare pools"
            )
        findings.differ([REPLACED])
        findings.copies.append(Copy(origin_of(self.document), key, copied[0]))

    def _place(self, findings: Findings, patched: Patched, added: Sequence[Target]) -> None:
        if self.namespace:
            added = list(in_namespace(self.namespace, [*added]))
        patches.place(findings, origin_of(self.document), patched, added)

    def _given(self, labels: dict[str, str]) -> Patched:
        """What a pod gets in a namespace with these labels, whatever it says itself of its
        placement. Raises Untakable.
        """
        evaluation = Evaluation(labels, guess=True)
        first = self._evaluated(evaluation)
        if not evaluation.guessed:
            return first
        return _combined(first, self._evaluated(Evaluation(labels, guess=False)))

    def _evaluated(self, evaluation: Evaluation) -> Patched:
        result = Patched()
        if not all(evaluation.holds(condition) for condition in self.conditions):
            return result
        for at, node in self.mutations:
            try:
                value = evaluation.value(node)
            except Absent:
                return Patched()
            if isinstance(value, Unknown):
                raise Untakable(
                    f"a value comes from the pod ({', '.join(sorted(value.fields))}), and a pool "
                    "has constants: write the values"
                )
            if "jsonPatch" in at:
                patches.operate(self.document, at, value, result)
            elif isinstance(value, dict):
                patches.merge(self.document, at, value, result)
        return result


def _size(findings: Findings) -> int:
    return len([*findings.placements, *findings.copies, *findings.not_taken_over])


def _is_value(text: str) -> bool:
    """Whether a text can be the value of a label."""
    try:
        labels.check_value(text)
    except ValueError:
        return False
    return bool(text)


def _with_value(patched: Patched, value: str) -> Patched:
    """What is given for this value in place of any other one."""
    node_selector = {
        key: value if each == ANY_OTHER else each for key, each in patched.node_selector.items()
    }
    return replace(patched, node_selector=node_selector)


def _value(target: Target) -> str:
    match target:
        case Labelled(_, value) | Named(value):
            return value
    raise Untakable("it selects all namespaces but some: name them")


def _combined(one: Patched, other: Patched) -> Patched:
    """What a pod gets if it says something of its placement itself, and if it does not."""
    fewer, more = sorted((one, other), key=lambda patched: len(patched.node_selector))
    if not fewer.node_selector.items() <= more.node_selector.items():
        raise Untakable("its conditions on the pod give different nodeSelectors: keep one of them")
    return Patched(
        node_selector=more.node_selector,
        tolerations=each_once([*one.tolerations, *other.tolerations]),
        closed=one.closed and other.closed,
        yields=fewer.node_selector != more.node_selector,
        left_out=[*dict.fromkeys([*one.left_out, *other.left_out])],
    )

"""Reads what Kyverno's patches of a pod say about its placement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fairlead.common import mistakes, yaml_files
from fairlead.common.yaml_files import Location
from fairlead.convert.findings import (
    REPLACED,
    Assignment,
    Findings,
    Origin,
    Placement,
    Target,
)
from fairlead.convert.reading import node_selector, tolerations
from fairlead.convert.targets import Untakable
from fairlead.settings.models import Toleration

KEEP = ": keep Kyverno for it"
PLACING = re.compile(r"\b(nodeSelector|tolerations)\b")
"""What a policy names that places pods."""

_ADDED = re.compile(r"\+\((.*)\)")
_ANCHOR = re.compile(r"[X^=<]?\(.*\)")


@dataclass
class Patched:
    """What the patches of a rule give a pod. `left_out` are reasons; `yields` says whether a pod's
    own nodeSelector stays.
    """

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    closed: bool = False
    yields: bool = False
    left_out: list[str] = field(default_factory=list)

    def assignment(self) -> Assignment:
        """What the pod gets."""
        return Assignment(self.node_selector, self.tolerations, self.closed)


def place(findings: Findings, origin: Origin, patched: Patched, targets: Sequence[Target]) -> None:
    """Add what patches give the pods of these namespaces."""
    findings.leave_out(origin, *patched.left_out)
    assignment = patched.assignment()
    if assignment.empty:
        return
    if patched.yields and patched.node_selector:
        findings.leave_out(
            origin,
            "pods that set the field themselves keep it there, but Fairlead refuses another value "
            "than the pool's: remove it from these pods",
        )
    elif patched.node_selector:
        findings.differ([REPLACED])
    findings.placements += [Placement(origin, target, assignment) for target in targets]


def elsewhere(kinds: str) -> str:
    """Why a policy that changes other things is left out."""
    return (
        f"it changes {kinds}, but not the nodeSelector or the tolerations of pods, which are all "
        f"that a pool of Fairlead gives{KEEP}"
    )


def merged(document: yaml_files.Document, at: Location, patch: Mapping[str, Any]) -> Patched:
    """What a patchStrategicMerge gives. Raises Untakable, InputError."""
    result = Patched()
    merge(document, at, patch, result)
    return result


def merge(
    document: yaml_files.Document, at: Location, patch: Mapping[str, Any], result: Patched
) -> None:
    """Add what a patch that is merged into a pod gives. Raises Untakable, InputError."""
    for key, value, location, _ in _entries(patch, at):
        if key == "spec" and isinstance(value, dict):
            _merge_spec(document, location, value, result)
        elif value:
            result.left_out.append(_other(location))


def _merge_spec(
    document: yaml_files.Document, at: Location, spec: Mapping[str, Any], result: Patched
) -> None:
    for key, value, location, added in _entries(spec, at):
        if key == "nodeSelector" and isinstance(value, dict):
            entries = list(_entries(value, location))
            result.yields |= added or any(is_addition for *_, is_addition in entries)
            values = {name: part for name, part, *_ in entries}
            for name in [name for name, part in values.items() if part is None]:
                del values[name]
                result.left_out.append(f"{mistakes.path((*location, name))}: no pool removes a key")
            result.node_selector |= node_selector(document, location, values)
        elif key == "tolerations":
            result.tolerations = tolerations(document, location, value)
        elif value:
            result.left_out.append(_other(location))


def _entries(
    mapping: Mapping[str, Any], at: Location
) -> Iterator[tuple[str, Any, tuple[str | int, ...], bool]]:
    """The entries without their anchors: key, value, location, and whether it is only added where
    it is missing. Raises Untakable for conditions.
    """
    for key, value in mapping.items():
        added = _ADDED.fullmatch(key)
        if not added and _ANCHOR.fullmatch(key):
            raise Untakable(
                f"{mistakes.path((*at, key))} is a condition on the pod, and Fairlead places every "
                "pod of a namespace: give these pods a namespace of their own"
            )
        yield added[1] if added else key, value, (*at, key), bool(added)


def applied(document: yaml_files.Document, at: Location, text: str) -> Patched:
    """What patchesJson6902 give, a list of operations as text. Raises Untakable, InputError."""
    result = Patched()
    operate(document, at, _operations(document, at, text), result)
    return result


def operate(document: yaml_files.Document, at: Location, value: Any, result: Patched) -> None:
    """Add what the operations of a JSON patch give. Raises Untakable, InputError."""
    if not isinstance(value, list):
        problem = f"{mistakes.path(tuple(at))}: write a list of operations"
        raise document.error(problem, at)
    for number, operation in enumerate(value):
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise document.error(
                f"{mistakes.path((*at, number))}: write an operation with op, path and value", at
            )
        _apply(document, (*at, number), operation, result)


def _operations(document: yaml_files.Document, at: Location, text: str) -> Any:
    try:
        return yaml_files.yaml_value(text)
    except (yaml.YAMLError, RecursionError, TypeError, ValueError) as error:
        problem = f"{mistakes.path(tuple(at))} is not valid YAML"
        raise document.error(problem, at) from error


def _apply(
    document: yaml_files.Document, at: Location, operation: Mapping[str, Any], result: Patched
) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")]
    value, name = operation.get("value"), operation.get("op")
    location = (*at, "value")
    if name != "add":
        result.left_out.append(
            f"{mistakes.path(tuple(at))}: {name} {operation['path']}: a pool only adds: use add, "
            "or keep Kyverno for it"
        )
        return
    match steps:
        case ["", "spec", "nodeSelector"]:
            result.node_selector = node_selector(document, location, value)
            result.closed = True
        case ["", "spec", "nodeSelector", key]:
            result.node_selector |= node_selector(document, location, {key: value})
        case ["", "spec", "tolerations"]:
            result.tolerations = tolerations(document, location, value)
        case ["", "spec", "tolerations", _]:
            result.tolerations += tolerations(document, location, [value])
        case _:
            result.left_out.append(_other((*at, operation["path"])))


def _other(at: Location) -> str:
    return (
        f"{mistakes.path(tuple(at))}: Fairlead places pods by their nodeSelector and tolerations: "
        "keep Kyverno for the rest"
    )


def has_variables(value: Any) -> bool:
    """Whether Kyverno would replace a part of the value."""
    text = json.dumps(value)
    return "{{" in text or "$(" in text

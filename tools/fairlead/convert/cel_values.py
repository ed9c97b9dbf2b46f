"""What expressions in CEL come to for a new pod of which only its namespace is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.convert.cel import LIST, MAP, Call, Const, Field, Name, Node, parts, path
from fairlead.convert.targets import NAME_LABEL, Untakable

ANY_OTHER = "any-other-value-of-the-label"
"""Stands for the values of a label that no expression names."""

_PLACING = ("spec.nodeSelector", "spec.tolerations")
_LABELS = ("namespaceObject", "metadata", "labels")
_NAMES_OF_NAMESPACES = (
    ("namespaceObject", "metadata", "name"),
    ("object", "metadata", "namespace"),
    ("request", "namespace"),
)

_OPERATION = ("request", "operation")
# What is known of every pod. It has no template.
_OF_PODS: Mapping[tuple[str, ...], str] = {
    ("object", "apiVersion"): "v1",
    ("object", "kind"): "Pod",
    ("request", "kind", "kind"): "Pod",
    ("request", "resource", "resource"): "pods",
}
_PRESENT = (("object", "metadata"), ("object", "spec"), ("object", "spec", "containers"))
_TEMPLATES = (("object", "spec", "template"), ("object", "spec", "jobTemplate"))


@dataclass(frozen=True)
class Unknown:
    """A value that depends on the `fields` of the object."""

    fields: frozenset[str]


class Absent(Exception):
    """A label that the namespace does not have, or a field that no pod has."""


@dataclass
class Evaluation:
    """Evaluates expressions for a request with this `operation` about a pod, or about any other
    object unless `is_pod`, in a namespace with these `labels`.

    Where a condition asks what a pod says itself of its placement, the answer is `guess`, and
    `guessed` becomes true.
    """

    labels: Mapping[str, str]
    guess: bool
    is_pod: bool = True
    operation: str = "CREATE"
    guessed: bool = field(default=False, init=False)

    def holds(self, node: Node) -> bool:
        """Whether a condition is true. Raises Untakable if that depends on the object."""
        value = self._or_absent(node)
        if not isinstance(value, Unknown):
            return value is True
        for name in sorted(value.fields):
            if not name.startswith(_PLACING):
                raise Untakable(
                    f"it has a condition on {name}, and Fairlead places every pod of a namespace, "
                    "whoever asks: give these pods a namespace of their own"
                )
        self.guessed = True
        return self.guess

    def value(self, node: Node) -> Any:
        """What the expression comes to. Raises Absent, and Untakable for what is not read."""
        keys = path(node)
        if keys and keys[0] in ("namespaceObject", "object", "request"):
            return self._field(keys)
        match node:
            case Const(value):
                return value
            case Field(operand, key):
                return _called("_[_]", [self.value(operand), key])
            case Call("_?_:_", (condition, first, second)):
                return self.value(first if self.holds(condition) else second)
            case Call("_&&_" | "_||_" as name, args):
                return self._joined(args, decisive=name == "_||_")
            case Call("has" | "hasValue", (operand,)):
                value = True if path(operand) in _PRESENT else self._or_absent(operand)
                return value if isinstance(value, Unknown) else value is not Absent
            case Call("orValue", (operand, default)):
                value = self._or_absent(operand)
                return self.value(default) if value is Absent else value
            case Call("all" | "exists" | "filter" | "map", (operand, Name(_), *_)):
                return _called("macros", [self.value(operand)])
            case Call(name, args):
                return _called(name, [self.value(arg) for arg in args if arg != Name("jsonpatch")])
        raise Untakable(f"it reads {node.name}, which convert does not know: write the values")

    def _or_absent(self, node: Node) -> Any:
        try:
            return self.value(node)
        except Absent:
            return Absent

    def _field(self, keys: tuple[str, ...]) -> Any:
        if keys == _OPERATION:
            return self.operation
        if self.is_pod and keys in _OF_PODS:
            return _OF_PODS[keys]
        if keys == _LABELS:
            return self.labels
        if keys in _NAMES_OF_NAMESPACES or keys[:-1] == _LABELS:
            key = keys[-1] if keys[:-1] == _LABELS else NAME_LABEL
            return _called("_[_]", [self.labels, key])
        if self.is_pod and keys[:3] in _TEMPLATES:
            raise Absent
        return Unknown(frozenset([".".join(keys[1:] if keys[0] == "object" else keys)]))

    def _joined(self, args: tuple[Node, ...], *, decisive: bool) -> Any:
        """`decisive` is the value that decides, also beside an error: true for ||, false for &&."""
        values = [self._or_absent(arg) for arg in args]
        if decisive in values:
            return decisive
        if Absent in values:
            raise Absent
        unknown = [each.fields for each in values if isinstance(each, Unknown)]
        return Unknown(frozenset().union(*unknown)) if unknown else not decisive


def _called(name: str, args: list[Any]) -> Any:
    unknown = [arg.fields for arg in args if isinstance(arg, Unknown)]
    if unknown:
        return Unknown(frozenset().union(*unknown))
    if name not in _FUNCTIONS:
        raise Untakable(f"it uses {name.strip('_@')} of CEL, which convert does not know there")
    if name in _INSIDE and ANY_OTHER in args:
        raise Untakable(
            "it looks into the value of a label or the name of the namespace, and a pool is for "
            "whole values: name them"
        )
    try:
        return _FUNCTIONS[name](*args)
    except (AttributeError, LookupError, TypeError) as error:
        raise Absent from error


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "!_": lambda value: not value,
    "_!=_": lambda one, other: one != other,
    "_+_": lambda one, other: one + other,
    "_==_": lambda one, other: one == other,
    LIST: lambda *elements: list(elements),
    MAP: lambda *parts: dict(zip(parts[::2], parts[1::2], strict=True)),
    "_[_]": lambda operand, key: operand[key],
    "_[?_]": lambda operand, key: operand[key],
    "@in": lambda value, operand: value in operand,
    "dyn": lambda value: value,
    "endsWith": str.endswith,
    "escapeKey": lambda key: key.replace("~", "~0").replace("/", "~1"),
    "startsWith": str.startswith,
    "string": str,
}


_INSIDE = ("_+_", "endsWith", "startsWith")
"""Functions for which the parts of a text matter."""


def asked_labels(node: Node) -> Iterator[str]:
    """The labels of the namespace that an expression reads; its name is one, too."""
    for part in parts(node):
        keys = path(part)
        if keys in _NAMES_OF_NAMESPACES:
            yield NAME_LABEL
        elif keys and keys[:-1] == _LABELS:
            yield keys[-1]
        match part:
            case Call("@in", (Const(str() as key), labels)) if path(labels) == _LABELS:
                yield key


def compared_texts(node: Node) -> Iterator[str]:
    """The texts that an expression compares something with, or looks something up by."""
    for part in parts(node):
        match part:
            case Call("_==_" | "_!=_" | "@in" | "{}", args):
                inner = [each for arg in args for each in parts(arg)]
                yield from (
                    each.value
                    for each in inner
                    if isinstance(each, Const) and isinstance(each.value, str)
                )

"""Generates requests that cost much memory or time (huge, deep, compressed or slow), and how many
clients send them at once."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.sync import decision_uploads

KIB = 1024


class Shape(NamedTuple):
    """The part of a pod that is made large: at `spot`, many copies of `unit` between `begin` and
    `end`, which may contain their number.

    If `nested`, each unit is inside the one before, and is closed by `close`.
    """

    spot: tuple[str | int, ...]
    begin: str
    unit: str
    end: str
    separator: str = ","
    close: str = ""


_CONTAINER = ("spec", "containers", 0)
SHAPES: Mapping[str, Shape] = {
    "env": Shape((*_CONTAINER, "env"), "[", '{"name":"a"}', "]"),
    "args": Shape((*_CONTAINER, "args"), "[", '""', "]"),
    "volumes": Shape(("spec", "volumes"), "[", '{"name":"v%d","emptyDir":{}}', "]"),
    "containers": Shape(("spec", "initContainers"), "[", '{"name":"c%d","image":"a"}', "]"),
    "tolerations": Shape(("spec", "tolerations"), "[", '{"key":"k%d","operator":"Exists"}', "]"),
    "node selector": Shape(("spec", "nodeSelector"), "{", '"k%d":"v"', "}"),
    "labels": Shape(("metadata", "labels"), "{", '"k%d":""', "}"),
    "annotations": Shape(("metadata", "annotations"), "{", '"k%d":"x"', "}"),
    "a long annotation": Shape(("metadata", "annotations"), '{"a":"', "x", '"}', ""),
    "a long escaped annotation": Shape(("metadata", "annotations"), '{"a":"', r"\u00e9", '"}', ""),
    "owners": Shape(("metadata", "ownerReferences"), "[", "{}", "]"),
    "a long name": Shape(("metadata", "name"), '"', "x", '"', ""),
    # Shapes that no API server passes on.
    "labels that are lists": Shape(("metadata", "labels"), "[", "[]", "]"),
    "labels that are numbers": Shape(("metadata", "labels"), "[", "1", "]"),
    "labels that are objects": Shape(("metadata", "labels"), "{", '"k%d":{"a":[{}]}', "}"),
    "one label many times": Shape(("metadata", "labels"), "{", '"agentpool":"pool2"', "}"),
    "one selector many times": Shape(("spec", "nodeSelector"), "{", '"agentpool":"pool2"', "}"),
    "deep lists": Shape(("metadata", "labels"), "", "[", "", "", "]"),
    "deep objects": Shape(("spec", "nodeSelector"), "", '{"a":', "null", "", "}"),
}
TYPED = tuple(SHAPES)[: tuple(SHAPES).index("labels that are lists")]
"""The shapes that an API server accepts in a pod, so that a tenant can send them."""


class Way(NamedTuple):
    """The largest useful KiB of JSON for a target, and the shapes that it accepts."""

    largest: int
    shapes: Sequence[str] = tuple(SHAPES)


_REVIEW = LARGEST_REVIEW // KIB
WAYS: Mapping[str, Way] = {
    "review": Way(_REVIEW),
    "packed review": Way(4 * _REVIEW),
    "slow review": Way(_REVIEW, ("labels",)),
    "pod": Way(_REVIEW // 2 - 16, TYPED),  # etcd's own limit is 1.5 MiB
    "slow request to the sidecar": Way(1, ("labels",)),
    "packed upload to the sidecar": Way(32 * KIB),
}
"""The targets: OPA's port without a token, the API server as a tenant who may edit one namespace,
or the sidecar's port."""
OPA_ALONE = ("review", "packed review", "slow review")


@dataclass(frozen=True)
class Attack:
    """An attack: `clients` clients at once send `size` KiB of JSON of one of SHAPES by one of
    WAYS.
    """

    way: str
    shape: str
    size: int
    clients: int

    @classmethod
    def load(cls, path: Path) -> Attack:
        """Read an attack from a JSON file, as a failing run prints it. Raises InputError if it is
        invalid.
        """
        value = yaml_files.read_json(path)
        try:
            attack = cls(**value)
            known = (
                attack.way in WAYS
                and attack.shape in SHAPES
                and attack.size > 0
                and attack.clients > 0
            )
        except TypeError as error:
            raise InputError(
                path, f"is not an attack as `python -m lab fuzz` prints one: {error}"
            ) from error
        if not known:
            raise InputError(path, f"is not an attack as `python -m lab fuzz` prints one: {value}")
        return attack

    def document(self) -> dict[str, Any]:
        """The attack as JSON for `load`."""
        return asdict(self)

    @property
    def slow(self) -> bool:
        """Whether its clients send only a byte now and then."""
        return self.way.startswith("slow")

    def body(self) -> bytes:
        """The body that each client sends."""
        return _body(self)


@st.composite
def attacks(draw: DrawFn, ways: Sequence[str]) -> Attack:
    """A random attack by one of the ways. Half of them have the largest size, and most come from
    many clients.
    """
    way = draw(st.sampled_from(ways))
    largest = WAYS[way].largest
    size = draw(st.integers(1, largest) | st.just(largest))
    return Attack(
        way, draw(st.sampled_from(WAYS[way].shapes)), size, draw(st.integers(1, 16) | st.just(16))
    )


@lru_cache(maxsize=4)
def _body(attack: Attack) -> bytes:
    if attack.way == "pod":
        return _pod(attack.shape, attack.size * KIB).encode()
    if attack.way.endswith("upload to the sidecar"):
        entry = f'{{"decision_id":"1","input":{_pod(attack.shape, attack.size * KIB // 8)},"result":{{}}}}'  # noqa: E501
        return gzip.compress(f"[{','.join([entry] * 8)}]".encode())[: decision_uploads.LARGEST]
    body = _review(attack.shape, attack.size * KIB)
    return gzip.compress(body) if attack.way.startswith("packed") else body


def _review(shape: str, size: int) -> bytes:
    """A review of at most `size` bytes. If the shape is tolerations, it is an update that adds the
    last one.
    """
    review = yaml_files.read_json(paths.root() / "testdata" / "review.json")
    review["request"]["object"] = "\0new"
    updated = shape == "tolerations"
    if updated:
        review["request"] |= {"operation": "UPDATE", "oldObject": "\0old"}
    text = json.dumps(review)
    share = (size - len(text)) // (2 if updated else 1)
    text = text.replace('"\\u0000new"', _pod(shape, share))
    return text.replace('"\\u0000old"', _pod(shape, share - 60)).encode()


def _pod(shape: str, size: int) -> str:
    """A pod as JSON of at most `size` bytes, or of slightly more if a pod cannot be so small."""
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large"},
        "spec": {"containers": [{"name": "c", "image": "a"}]},
    }
    spot, begin, unit, end, separator, close = SHAPES[shape]
    at: Any = pod
    for key in spot[:-1]:
        at = at[key]
    at[spot[-1]] = "\0much"
    frame = json.dumps(pod)
    left = size - len(frame) - len(begin) - len(end)
    return frame.replace('"\\u0000much"', begin + _units(unit, separator, close, left) + end)


def _units(unit: str, separator: str, close: str, size: int) -> str:
    """As many units as fit into `size` characters, at least one."""
    if "%d" not in unit:
        count = max(1, size // (len(unit) + len(separator) + len(close)))
        return (unit + separator) * (count - 1) + unit + close * count
    units = [unit % 0]
    left = size - len(units[0])
    for number in itertools.count(1):
        units.append(unit % number)
        left -= len(units[-1]) + len(separator)
        if left < 0:
            return separator.join(units[:-1])
    raise AssertionError  # not reached: the loop has no other end

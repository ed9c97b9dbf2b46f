"""What an intent in Python is made of. `policies/<intent>/engines/python.py` defines one function:

    def decide(
        request: Request, parameters: Mapping[str, Any], settings: Settings
    ) -> Decision: ...

It gets the requests that intent.yaml names, and returns what it has to say about one.
It reads nothing but its arguments, so that equal requests get equal answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Patch = Mapping[str, Any]
"""One operation of a JSON Patch (RFC 6902)."""


UNNAMED = "(unnamed)"


@dataclass(frozen=True)
class Kind:
    """The kind of the object that is sent. The group of core/v1 is empty."""

    group: str
    version: str
    kind: str

    @property
    def path(self) -> str:
        """The kind without its version, such as `apps/Deployment` or `/Pod`."""
        return f"{self.group}/{self.kind}"


@dataclass(frozen=True)
class Resource:
    """The resource that the request is sent to, such as apps/v1 deployments."""

    group: str
    version: str
    resource: str


@dataclass(frozen=True)
class User:
    """Who sends the request."""

    name: str = ""
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Request:
    """One request.

    `object` is what is created, or what an update makes of `old_object`; None if there is none. As
    in JSON, any of their fields may be missing, null or of a wrong type: see `get`. `namespace` is
    empty for objects without one, and `namespace_labels` are None while the namespace is not known.
    `name` is that of the object in messages: the prefix of a name that is generated ends with `*`.
    `object_name` is the same name, and that of the request if no object has one.
    """

    operation: Operation
    kind: Kind
    object: Any = None
    old_object: Any = None
    name: str = UNNAMED
    object_name: str = ""
    namespace: str = ""
    namespace_labels: Mapping[str, str] | None = None
    sub_resource: str = ""
    resource: Resource = field(default_factory=lambda: Resource("", "", ""))
    user: User = field(default_factory=User)
    dry_run: bool = False

    @property
    def title(self) -> str:
        """The object in messages, such as `deployment "web"`."""
        return f"{self.kind.kind.lower()} {quoted(self.name)}"


@dataclass(frozen=True)
class Decision:
    """What an intent has to say: why it refuses, what it warns of, and what it changes.

    If any intent refuses, nothing is changed. `audit` is for the audit log of the API server, if
    the request is admitted.
    """

    deny: frozenset[str] = frozenset()
    warn: frozenset[str] = frozenset()
    patch: tuple[Patch, ...] = ()
    audit: str = ""

    @classmethod
    def refusing(cls, subject: str, problems: Iterable[str]) -> Decision:
        """Refuse for each of the problems that the subject has."""
        return cls(deny=frozenset(f"{subject}: {problem}" for problem in problems))


def get(value: Any, *path: str, default: Any = None) -> Any:
    """The field at `path` of an object; `default` if it is missing or null."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return default if value is None else value


def add(path: Sequence[str], value: Any) -> Patch:
    """The operation that adds a field or replaces it; `-` as the last key appends to a list."""
    return {"op": "add", "path": pointer(path), "value": value}


def replace(path: Sequence[str], value: Any) -> Patch:
    """The operation that replaces a field, which has to be there."""
    return {"op": "replace", "path": pointer(path), "value": value}


def remove(path: Sequence[str]) -> Patch:
    """The operation that removes a field, which has to be there."""
    return {"op": "remove", "path": pointer(path)}


def pointer(path: Sequence[str]) -> str:
    """The path as a JSON Pointer (RFC 6901)."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in path)


_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def quoted(text: str) -> str:
    """The text in quotes, as Rego's `%q` and Go's strconv.Quote write it."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_json(value: Any) -> str:
    """The value in JSON as Rego's `json.marshal` writes it: sorted, without spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

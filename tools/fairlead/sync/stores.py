"""Replicated objects as canonical JSON text, and the patches that load them into OPA piece by
piece.

A piece is bounded in bytes, because OPA refuses requests above its limit (3 MiB as deployed), and
in operations, because the work of a JSON Patch grows with the square of their number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Key = tuple[str, str]  # namespace (empty if cluster-scoped) and name
Store = Mapping[Key, str]
"""All objects of one resource, each as `canonical` JSON text, which is smaller and faster to
compare than parsed objects."""

Change = tuple[Key, str | None]
"""An object as it should be, or None for its removal."""

PIECE = 1024 * 1024
"""The most bytes of one request, unless a single object has more."""

OPERATIONS = 1000
"""The most operations of one request."""


def canonical(value: Any) -> str:
    """The unique JSON text of a value, in ASCII, so that it has as many bytes as characters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def read(document: Mapping[str, Any], *, namespaced: bool) -> Iterator[tuple[Key, Any]]:
    """The objects of OPA's document: {name: object}, or {namespace: {name: object}} if namespaced.

    If a namespace holds anything but objects, its value comes with an empty name.
    """
    for first, value in document.items():
        if not namespaced:
            yield ("", first), value
        elif isinstance(value, dict) and value:
            yield from (((first, name), part) for name, part in value.items())
        else:
            yield (first, ""), value


def whole(store: Store) -> str:
    """The document of a store as JSON text."""
    members: dict[str, list[str]] = {}
    for (namespace, name), text in store.items():
        members.setdefault(namespace, []).append(f"{json.dumps(name)}:{text}")
    objects = {namespace: f"{{{','.join(parts)}}}" for namespace, parts in members.items()}
    if "" in objects or not objects:
        return objects.get("", "{}")
    return (
        f"{{{','.join(f'{json.dumps(namespace)}:{text}' for namespace, text in objects.items())}}}"
    )


def size(store: Store) -> int:
    """The approximate number of bytes of the document."""
    return sum(len(text) + len(name) + 4 for (_, name), text in store.items())


def pieces(
    target: Store, current: Store, *, limit: int = PIECE, operations: int = OPERATIONS
) -> Iterator[tuple[str, list[Change]]]:
    """The JSON Patches that turn `current` into `target`, each with its changes; none if both are
    equal.
    """
    body: list[str] = []
    changes: list[Change] = []
    length = 0
    for text, changed in _operations(target, current):
        if body and (length + len(text) > limit or len(body) == operations):
            yield f"[{','.join(body)}]", changes
            body, changes, length = [], [], 0
        body.append(text)
        changes += changed
        length += len(text) + 1
    if body:
        yield f"[{','.join(body)}]", changes


def _operations(target: Store, current: Store) -> Iterator[tuple[str, list[Change]]]:
    """The single operations, each with its changes: first namespaces that are new or broken, then
    objects, then removals.
    """
    changed = [key for key, text in target.items() if current.get(key) != text]
    removed = [key for key in current if key not in target]
    fresh: set[str] = set()
    empty: set[str] = set()
    if any(namespace for namespace, _ in (*changed, *removed)):
        namespaces, members = _namespaces(target), _members(current)
        fresh = {
            namespace
            for namespace in namespaces
            if not all(name for _, name in members.get(namespace, [("", "")]))
        }
        empty = members.keys() - namespaces - {""}
        for namespace in sorted(fresh):
            yield _add((namespace,), "{}"), [(key, None) for key in members.get(namespace, ())]
        changed = [
            key for key, text in target.items() if key[0] in fresh or current.get(key) != text
        ]
    for key in changed:
        yield _add(_place(key), target[key]), [(key, target[key])]
    for namespace in sorted(empty):
        yield _remove((namespace,)), [(key, None) for key in members[namespace]]
    for key in removed:
        if key[0] not in empty and key[0] not in fresh:
            yield _remove(_place(key)), [(key, None)]


def _namespaces(store: Store) -> set[str]:
    return {namespace for namespace, _ in store} - {""}


def _members(store: Store) -> dict[str, list[Key]]:
    members: dict[str, list[Key]] = {}
    for key in store:
        members.setdefault(key[0], []).append(key)
    return members


def _place(key: Key) -> tuple[str, ...]:
    return key if key[0] else key[1:]


def _add(path: Iterable[str], text: str) -> str:
    return f'{{"op":"add","path":{_pointer(path)},"value":{text}}}'


def _remove(path: Iterable[str]) -> str:
    return f'{{"op":"remove","path":{_pointer(path)}}}'


def _pointer(path: Iterable[str]) -> str:
    """A JSON Pointer (RFC 6901), as JSON text."""
    return json.dumps("".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path))

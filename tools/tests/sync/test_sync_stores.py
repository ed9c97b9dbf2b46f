"""Replicated objects, and the requests that load them into OPA."""

from __future__ import annotations

import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.sync.stores import Key, canonical, pieces, read, size, whole

_NAMES = st.sampled_from(["a", "b", "c~/d"])
_VALUES = st.sampled_from(["1", '{"x":2}', "[]"])


def flat(document: Any, *, namespaced: bool) -> dict[Key, str]:
    return {key: canonical(value) for key, value in read(document, namespaced=namespaced)}


def patched(
    document: Any, target: dict[Key, str], held: dict[Key, str], **limits: int
) -> tuple[Any, int]:
    """OPA's document after all pieces, and their number."""
    count = 0
    for text, changes in pieces(target, held, **limits):
        count += 1
        document = jsonpatch.apply_patch(document, text)
        assert set(changes) <= {*target.items(), *((key, None) for key in held)}
    return document, count


@given(
    st.booleans(),
    st.dictionaries(st.tuples(_NAMES, _NAMES), _VALUES),
    st.dictionaries(st.tuples(_NAMES, _NAMES), _VALUES),
    st.integers(1, 4),
)
def test_pieces_make_what_is_wanted_of_what_is_held(
    namespaced: bool, target: dict[Key, str], held: dict[Key, str], most: int
) -> None:
    if not namespaced:
        target, held = (
            {("", name): text for (_, name), text in store.items()} for store in (target, held)
        )
    document = json.loads(whole(held))
    assert flat(document, namespaced=namespaced) == held
    after, _ = patched(document, target, held, operations=most)
    assert after == json.loads(whole(target))
    assert flat(after, namespaced=namespaced) == target


@pytest.mark.parametrize("broken", [5, {}, [], None])
def test_what_is_no_namespace_of_objects_is_put_right(broken: Any) -> None:
    document = {"shop": broken, "gone": broken}
    target = {("shop", "web"): "1"}
    after, _ = patched(document, target, flat(document, namespaced=True))
    assert after == {"shop": {"web": 1}}


def test_nothing_is_sent_where_nothing_changes() -> None:
    store = {("", "a"): "1"}
    assert list(pieces(store, dict(store))) == []


def test_a_piece_is_bounded_in_bytes_and_operations_but_holds_at_least_one_object() -> None:
    target = {("", f"n{number}"): canonical("x" * 100) for number in range(50)}
    for text, changes in pieces(target, {}, limit=1000):
        assert len(text) <= 1000 + 2
        assert len(changes) == 7 or changes[-1][0] == ("", "n49")
    assert [len(changes) for _, changes in pieces(target, {}, operations=20)] == [20, 20, 10]
    assert [len(changes) for _, changes in pieces(target, {}, limit=1)] == [1] * 50


def test_the_size_is_that_of_the_document() -> None:
    store = {("", f"n{number}"): canonical("x" * 100) for number in range(50)}
    assert abs(size(store) - len(whole(store))) < 5
    assert whole({}) == "{}"

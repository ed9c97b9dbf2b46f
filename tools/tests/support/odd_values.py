"""JSON values of any kind, and how to put them into the parts of a larger one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "acme", "de", "low", "8", "1Gi", "NaN", '["a"]', "{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "acme", "clusters", "weight", "cpu"]), inner)
    ),
    max_leaves=6,
)


def paths_of(value: Any) -> list[tuple[Any, ...]]:
    """The paths of all parts of a value, but not of the value itself."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [
        path
        for key, part in items
        for path in (
            (key,),
            *((key, *rest) for rest in (paths_of(part) if isinstance(part, dict | list) else ())),
        )
    ]


def replaced(whole: Any, path: tuple[Any, ...], value: Any) -> Any:
    """`whole` with another value at this path, if that is still there."""
    if not path:
        return value
    first, *rest = path
    if isinstance(whole, dict):
        return {**whole, first: replaced(whole.get(first), tuple(rest), value)}
    if isinstance(whole, list) and isinstance(first, int) and first < len(whole):
        return [*whole[:first], replaced(whole[first], tuple(rest), value), *whole[first + 1 :]]
    return whole

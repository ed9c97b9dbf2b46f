"""How tolerations compare, as in Kubernetes' plugin PodTolerationRestriction, and how messages name
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.engines.python.api import get

Toleration = Mapping[str, Any]


def covered(toleration: Toleration, tolerations: Sequence[Toleration]) -> bool:
    """Whether the toleration is one of `tolerations`, or narrower than one of them."""
    return any(_covers(candidate, toleration) for candidate in tolerations)


def texts(tolerations: Sequence[Toleration]) -> str:
    """The tolerations as taints are written, `key=value:effect`; `*` is every key."""
    return ", ".join(sorted({_text(toleration) for toleration in tolerations}))


def _covers(wide: Toleration, narrow: Toleration) -> bool:
    if wide == narrow:
        return True
    every_key = _is_exists(wide) and not _field(wide, "key")
    return (
        (every_key or _field(wide, "key") == _field(narrow, "key"))
        and _field(wide, "effect") in ("", _field(narrow, "effect"))
        and _covers_seconds(get(wide, "tolerationSeconds"), get(narrow, "tolerationSeconds"))
        and (_is_exists(wide) or _have_same_value(wide, narrow))
    )


def _covers_seconds(wide: int | None, narrow: int | None) -> bool:
    """Whether one who stays for `wide` seconds stays at least as long; None is for ever."""
    return wide is None or (narrow is not None and narrow <= wide)


def _have_same_value(wide: Toleration, narrow: Toleration) -> bool:
    """Lt and Gt compare numbers; such a toleration covers only itself."""
    operators = {_field(wide, "operator"), _field(narrow, "operator")}
    return operators <= {"", "Equal"} and _field(wide, "value") == _field(narrow, "value")


def _is_exists(toleration: Toleration) -> bool:
    return _field(toleration, "operator") == "Exists"


def _field(toleration: Toleration, name: str) -> str:
    return str(get(toleration, name, default=""))


def _text(toleration: Toleration) -> str:
    value, effect = _field(toleration, "value"), _field(toleration, "effect")
    seconds = get(toleration, "tolerationSeconds")
    return (
        (_field(toleration, "key") or "*")
        + (f"={value}" if value else "")
        + (f":{effect}" if effect else "")
        + ("" if seconds is None else f" for {seconds} s")
    )

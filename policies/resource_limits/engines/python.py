"""Resource limits: what containers request and their limits are there, and within maxima."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import ROUND_UP, Context, Decimal
from typing import Any, Literal

from fairlead.engines.python import pods
from fairlead.engines.python.api import Decision, Request, as_json, get, quoted
from fairlead.settings.models import Settings

List = Literal["requests", "limits"]
Container = tuple[str, Mapping[str, Any]]

_LISTS: Mapping[List, str] = {"requests": "request", "limits": "limit"}
_UNLIMITED_IF_MISSING = ("cpu", "ephemeral-storage", "memory")

# The units of k8s.io/apimachinery/pkg/api/resource.
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eE][+-]?[0-9]+|[a-zA-Z]*)")
_EXPONENT = re.compile(r"[eE]([+-]?)0*([0-9]+)")
_LONGEST_EXPONENT = 3
"""Digits. More are too large, or too small, for any resource."""
_MOST_BINARY = Decimal(2**63 - 1)
_MOST_TOLD = Decimal(10) ** 15
_SMALLEST = Decimal("1e-9")
_EXACT = Context(prec=5000, rounding=ROUND_UP, Emax=10**6, Emin=-(10**6))


def decide(request: Request, parameters: Mapping[str, Any], settings: Settings) -> Decision:
    """Refuse missing and large resources. An update that found them so is warned of."""
    path = pods.judged_path(request)
    if path is None:
        return Decision()
    problems = set(_problems(get(request.object, *path, "spec"), parameters))
    left: set[str] = set()
    if request.operation == "UPDATE":
        left = problems & set(_problems(get(request.old_object, *path, "spec"), parameters))
    return pods.decision(request, settings.mode("resource-limits"), problems - left, left)


def _problems(spec: Any, parameters: Mapping[str, Any]) -> Iterator[str]:
    for which in _LISTS:
        rules = parameters[which]
        required = _required(which, rules)
        names = {*required, *rules["container_max"], *rules["pod_max"]}
        yield from _unreadable(spec, which, names)
        for name in required:
            yield from _missing(spec, which, name)
        for name, most in rules["container_max"].items():
            yield from _large_containers(spec, which, name, most)
        for name, most in rules["pod_max"].items():
            total = _total(spec, which, name)
            if total > _known(most):
                yield (
                    f"all containers together have the {name} {_LISTS[which]} {_text(total)}, "
                    f"above the maximum {most}: lower resources.{which}.{name}"
                )


def _required(which: List, rules: Mapping[str, Any]) -> set[str]:
    required = set(rules["required"])
    if which == "limits":
        maxima = {*rules["container_max"], *rules["pod_max"]}
        required |= maxima.intersection(_UNLIMITED_IF_MISSING)
    return required


def _unreadable(spec: Any, which: List, names: set[str]) -> Iterator[str]:
    for title, container in _containers(spec):
        for name, value in get(container, "resources", which, default={}).items():
            if name in names and not _is_legal(value):
                yield (
                    f"{title} has the {name} {_LISTS[which]} {as_json(value)}, which is not a "
                    "quantity: write it like 500m or 1Gi"
                )
    for path in (("resources", "requests"), ("resources", "limits"), ("overhead",)):
        for name, value in get(spec, *path, default={}).items():
            if name in names and not _is_legal(value):
                yield (
                    f"the pod has {name} {as_json(value)}, which is not a quantity: write it like "
                    "500m or 1Gi"
                )


def _missing(spec: Any, which: List, name: str) -> Iterator[str]:
    if _pod_level(spec, which, name):
        return
    for title, container in _containers(spec):
        if not _amount(container, which, name):
            yield f"{title} has no {name} {_LISTS[which]}: set resources.{which}.{name}"


def _large_containers(spec: Any, which: List, name: str, most: str) -> Iterator[str]:
    for title, container in _containers(spec):
        holder = container
        # A container without a limit of its own may use the limit of its pod.
        if not _amount(container, which, name) and which == "limits":
            holder = spec if _pod_level(spec, which, name) else container
        if _amount(holder, which, name) > _known(most):
            value = _written(holder, which, name)
            shown = value if isinstance(value, str) else as_json(value)
            yield (
                f"{title} has the {name} {_LISTS[which]} {shown}, above the maximum {most}: set "
                f"resources.{which}.{name} to at most {most}"
            )


def _containers(spec: Any) -> Iterator[Container]:
    """The containers with their titles, without ephemeral ones, which have no resources."""
    for listed, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in get(spec, listed, default=[]):
            yield f"{noun} {quoted(container['name'])}", container


def _written(holder: Any, which: List, name: str) -> Any:
    """The quantity of a container, or of a pod spec. A limit is a request unless that is given."""
    values = get(holder, "resources", which, default={})
    if name not in values and which == "requests":
        values = get(holder, "resources", "limits", default={})
    return values.get(name, "0")


def _amount(holder: Any, which: List, name: str) -> Decimal:
    amount = _quantity(_written(holder, which, name))
    return max(amount, Decimal(0)) if amount is not None else Decimal(0)


def _total(spec: Any, which: List, name: str) -> Decimal:
    """What the scheduler counts for the pod. Source: k8s.io/component-helpers/resource."""
    amount = _pod_level(spec, which, name) or _aggregate(spec, which, name)
    overhead = _quantity(get(spec, "overhead", default={}).get(name, "0"))
    unlimited = which == "limits" and amount == 0
    return amount if unlimited or overhead is None else _EXACT.add(amount, overhead)


def _pod_level(spec: Any, which: List, name: str) -> Decimal:
    """What the pod has by its own `resources`; 0 for none."""
    if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
        return Decimal(0)
    if which == "requests" and name not in get(spec, "resources", "requests", default={}):
        # API servers default it to what containers request, if the pod has any limit.
        aggregate = _aggregate(spec, which, name)
        if aggregate and get(spec, "resources", "limits", default={}):
            return aggregate
    return _amount(spec, which, name)


def _aggregate(spec: Any, which: List, name: str) -> Decimal:
    """The most that containers have at once. Sidecars keep running from their turn on."""
    sidecars = most = Decimal(0)
    for container in get(spec, "initContainers", default=[]):
        amount = _amount(container, which, name)
        if container.get("restartPolicy") == "Always":
            sidecars = _EXACT.add(sidecars, amount)
        elif amount:
            most = max(most, _EXACT.add(sidecars, amount))
    running = sidecars
    for container in get(spec, "containers", default=[]):
        running = _EXACT.add(running, _amount(container, which, name))
    return max(most, running)


def _is_legal(value: Any) -> bool:
    amount = _quantity(value)
    return amount is not None and amount >= 0


def _known(text: str) -> Decimal:
    amount = _quantity(text)
    if amount is None:
        raise ValueError(f"{text} is not a quantity")
    return amount


def _quantity(value: Any) -> Decimal | None:
    """The value of a quantity, rounded up to a billionth; None if it is none."""
    text = "0" if value is None else value if isinstance(value, str) else as_json(value)
    match = _QUANTITY.fullmatch(text)
    if match is None or not re.search(r"[0-9]", text):
        return None
    sign, whole, fraction, unit = match.groups(default="")
    exponent = _exponent(unit)
    if exponent is None and unit not in _BINARY:
        return None
    number = _EXACT.create_decimal(f"{whole or '0'}.{fraction or '0'}")
    if exponent is None:
        amount = min(_EXACT.multiply(number, Decimal(2 ** _BINARY[unit])), _MOST_BINARY)
    else:
        amount = min(_EXACT.scaleb(number, exponent), Decimal(10) ** 55)
    amount = amount.quantize(_SMALLEST, context=_EXACT)
    return amount.copy_negate() if sign == "-" else amount


def _exponent(unit: str) -> int | None:
    if match := _EXPONENT.fullmatch(unit):
        sign, digits = match.groups()
        exponent = int(digits[: _LONGEST_EXPONENT + 1])
        return -exponent if sign == "-" else exponent
    return _DECIMAL.get(unit)


def _text(amount: Decimal) -> str:
    """An amount as a person reads it."""
    if amount > _MOST_TOLD:
        return "more than 1P"
    milli = int(amount.scaleb(3, context=_EXACT).to_integral_value(ROUND_UP))
    units, rest = divmod(milli, 1000)
    if rest:
        return f"{milli}m"
    for unit in ("Gi", "Mi", "Ki"):
        if units and units % 2 ** _BINARY[unit] == 0:
            return f"{units // 2 ** _BINARY[unit]}{unit}"
    return str(units)

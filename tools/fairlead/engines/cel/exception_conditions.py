"""Exceptions as a condition of admission policies, which evaluate it before all else.

An admission policy knows no time. But an API server notes in `metadata.managedFields` when the
request that it admits changed the object, before it asks any policy, and whatever the request says
of other times, this one is not before it. So the newest of these times is that of the request. An
object without them, as in DELETE and CONNECT, is not excepted.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.engines.cel import literals
from fairlead.policy.exceptions import PolicyException

_TIMES = (
    "object.?metadata.managedFields.orValue([]).filter(entry, has(entry.time))"
    ".map(entry, timestamp(entry.time))"
)


def condition(exceptions: Sequence[PolicyException], name: str) -> dict[str, str]:
    """The condition by which a policy leaves alone what the exceptions are about. `name` is the
    expression of an object's name, as in messages.
    """
    alternatives = " || ".join(map(_is_excepted, exceptions))
    return {
        "name": "no-exception",
        "expression": f"![{_TIMES}].exists(times, size(times) > 0 && [{name}].exists(name, "
        f"{alternatives}))",
    }


def _is_excepted(exception: PolicyException) -> str:
    objects = exception.spec.objects
    exact = [name for name in objects.names if not name.endswith("*")]
    names = [
        *([f"name in {literals.value(sorted(exact))}"] if exact else []),
        *(f"name.startsWith({literals.text(prefix)})" for prefix in sorted(exception.prefixes)),
    ]
    parts = [
        f"request.namespace == {literals.text(exception.namespace)}",
        *(
            [f"request.resource.resource in {literals.value(sorted(objects.resources))}"]
            if objects.resources
            else []
        ),
        f"({' || '.join(names)})",
        f"times.all(time, time < timestamp({literals.text(exception.spec.until)}))",
    ]
    return f"({' && '.join(parts)})"

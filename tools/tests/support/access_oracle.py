"""What transient access should decide, computed by other means: datetime and fractions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import Any

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:([Zz])|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_GIGA = 10**9
_CYCLE = 400
"""Years after which the calendar repeats itself."""
_DAYS_OF_CYCLE = date(401, 1, 1).toordinal() - date(1, 1, 1).toordinal()
_EPOCH = date(1970, 1, 1).toordinal()
_RBAC = "rbac.authorization.k8s.io"
Instant = Fraction
"""Seconds since 1970."""


def instant(text: Any) -> Instant | None:
    """The instant that a text of RFC 3339 names; None for any other value."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    try:
        # Python knows no year 0, but the year 400 is as long.
        days = date(year or _CYCLE, month, day).toordinal() - (0 if year else _DAYS_OF_CYCLE)
        datetime(2000, 1, 1, hour, minute, second)  # raises for no time of a day
        if match[9]:
            datetime(2000, 1, 1, int(match[10]), int(match[11]))
    except ValueError:
        return None
    offset = timedelta(0)
    if match[9]:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11]))
        offset = -offset if match[9] == "-" else offset
    of_day = timedelta(hours=hour, minutes=minute, seconds=second) - offset
    fraction = Fraction(int(match[7] or 0), 10 ** len(match[7] or ""))
    return (days - _EPOCH) * 86400 + int(of_day.total_seconds()) + fraction


def seconds_until(now: Instant, then: Instant) -> Fraction:
    """How long to wait, in whole nanoseconds and at most an hour."""
    return min(Fraction(3600), Fraction(math.ceil((then - now) * _GIGA), _GIGA))


def answer(request: Mapping[str, Any], now: int) -> dict[str, Any]:
    """What a readable request without mistakes gets at `now`, in nanoseconds since 1970: {children,
    resync, conditions: [(type, status, reason, lastTransitionTime)]}.
    """
    parent = request["parent"]
    spec = parent.get("spec", parent)
    begin, end = instant(spec["validFrom"]), instant(spec["validUntil"])
    assert begin is not None
    assert end is not None
    at = Fraction(now, _GIGA)
    wanted = _binding(request, parent, spec)
    observed = [child for kind in request["children"].values() for child in kind.values()]
    deleted = request.get("finalizing") or "deletionTimestamp" in parent["metadata"]
    unapproved = spec.get("needsApproval") is True and not parent.get("approvedBy")
    inside = begin <= at < end and not deleted and not unapproved
    granting = [child for child in observed if _grants(child, wanted)]
    effective = bool(granting if inside else observed)
    settled = not observed
    if inside:
        settled = len(observed) == 1 and _is(observed[0], wanted)
    failed = begin >= end
    phase = (
        "Deleted"
        if deleted
        else "Invalid"
        if failed
        else "Expired"
        if at >= end
        else "NotApproved"
        if unapproved
        else "Granted"
        if inside
        else "Pending"
    )
    reason = {"Granted": "Granted" if effective else "NotObserved"}.get(
        phase, "Ending" if effective else phase
    )
    following = {"Pending": begin, "Granted": end, "NotApproved": end}.get(phase)
    waits = [] if following is None else [seconds_until(at, following)]
    if not settled:
        since = {"Granted": begin, "Expired": end}.get(phase)
        elapsed = 0 if since is None else math.floor(at) - math.floor(since)
        waits.append(Fraction(max(1, min(60, elapsed))))
    return {
        "children": [wanted] if inside else [],
        "resync": float(min(waits, default=Fraction(0))),
        "conditions": [
            _condition("effective", effective, reason, parent, now),
            _condition("failed", failed, "Invalid" if failed else "Valid", parent, now),
        ],
    }


def _condition(
    type_: str, holds: bool, reason: str, parent: Mapping[str, Any], now: int
) -> tuple[str, str, str, str]:
    status = str(holds)
    for before in parent.get("status", {}).get("conditions", []):
        if before["type"] == type_:
            if before["status"] == status:
                return type_, status, reason, before["lastTransitionTime"]
            break
    written = datetime.fromtimestamp(now // _GIGA, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return type_, status, reason, written


def _binding(
    request: Mapping[str, Any], parent: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    metadata = parent["metadata"]
    controller = request.get("controller", {}).get("spec", {})
    wanted = {"name": metadata["name"]}
    if parent["kind"] == "TransientRoleBinding":
        wanted["namespace"] = metadata["namespace"]
    labels = {"controller-uid": metadata["uid"]}
    if controller.get("generateSelector") is False:
        labels = spec.get("selector", {}).get("matchLabels")
    return {
        "apiVersion": controller.get("childResources", [{}])[0].get("apiVersion", f"{_RBAC}/v1"),
        "kind": parent["kind"].removeprefix("Transient"),
        "metadata": wanted | ({"labels": labels} if labels else {}),
        "roleRef": {"apiGroup": _RBAC, **{key: spec["roleRef"][key] for key in ("kind", "name")}},
        "subjects": [
            dict(subject)
            for subject in sorted(
                set(_subjects(spec["subjects"], metadata.get("namespace"))), key=_in_order
            )
        ],
    }


def _subjects(
    subjects: list[dict[str, str]], namespace: str | None
) -> Iterator[tuple[tuple[str, str], ...]]:
    for subject in subjects:
        written = {"kind": subject["kind"], "name": subject["name"]}
        if subject["kind"] == "ServiceAccount":
            written["namespace"] = subject.get("namespace") or namespace or ""
        else:
            written["apiGroup"] = _RBAC
        yield tuple(sorted(written.items()))


def _in_order(subject: tuple[tuple[str, str], ...]) -> Any:
    """OPA sorts objects by their keys and values, one pair after another."""
    return subject


def _grants(child: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    namespace = wanted["metadata"].get("namespace")
    return (
        child["kind"] == wanted["kind"]
        and child["metadata"].get("namespace") == namespace
        and {**child["roleRef"], "apiGroup": _RBAC} == wanted["roleRef"]
        and set(_subjects(wanted["subjects"], None))
        <= set(_subjects(child.get("subjects") or [], namespace))
    )


def _is(child: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return (
        _grants(child, wanted)
        and child["metadata"]["name"] == wanted["metadata"]["name"]
        and len(child["subjects"]) == len(wanted["subjects"])
    )

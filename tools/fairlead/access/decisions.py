"""Asks OPA for decisions, and takes from its answers only what concerns the parent that it was
asked about: whoever answers in OPA's place must not give another role by this controller."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import local
from typing import Any

from fairlead.access import bindings
from fairlead.access.bindings import Object, kind_of
from fairlead.opa.errors import OpaUnavailable
from fairlead.sync.opa_credentials import OpaCredentials

PAUSE = (0.1, 0.3)
"""Seconds for which OPA is not asked again after it could not be reached."""


@dataclass(frozen=True)
class Decision:
    """`binding` is what there has to be, None for none. `seconds` is the time until OPA has to be
    asked again, 0 for never.
    """

    binding: dict[str, Any] | None
    conditions: list[dict[str, Any]]
    seconds: float


class Decisions:
    """Asks OPA; for several threads, each of which has a connection of its own."""

    def __init__(self, credentials: Callable[[], OpaCredentials]) -> None:
        """`credentials` makes the credentials of one thread."""
        self._make = credentials
        self._of_thread = local()
        self._quiet_until = 0.0
        self.trouble: str | None = None
        """Why OPA does not decide; None if it does, or if nothing was asked yet."""

    def of(self, parent: Object, child: Object | None) -> Decision:
        """The decision about a parent with what is observed of its binding. Raises OpaUnavailable,
        at once if OPA could not be reached a moment ago.
        """
        if time.monotonic() < self._quiet_until:
            raise OpaUnavailable(self.trouble or "OPA cannot be reached")
        try:
            answer = self._credentials().client().sync(_request(parent, child))
        except OpaUnavailable as error:
            self.trouble = str(error)
            self._quiet_until = time.monotonic() + random.uniform(*PAUSE)  # noqa: S311 - no secret
            raise
        self.trouble = None
        return _read(answer, parent)  # what is wrong with one answer delays no other parent

    def _credentials(self) -> OpaCredentials:
        if not hasattr(self._of_thread, "credentials"):
            self._of_thread.credentials = self._make()
        credentials: OpaCredentials = self._of_thread.credentials
        return credentials


def _request(parent: Object, child: Object | None) -> dict[str, Any]:
    """The request of Metacontroller's sync hook."""
    resource = kind_of(_key(parent))
    group = f"{resource.child}.{resource.children.group}/{resource.children.version}"
    children = {child["metadata"]["name"]: child} if child else {}
    return {"parent": parent, "children": {group: children}, "finalizing": False}


def _read(answer: Mapping[str, Any], parent: Object) -> Decision:
    try:
        children, seconds = answer["children"], answer["resyncAfterSeconds"]
        conditions = answer["status"]["conditions"]
        if not isinstance(seconds, int | float) or not all(
            isinstance(condition["type"], str) and isinstance(condition["status"], str)
            for condition in conditions
        ):
            raise TypeError("its numbers or conditions are malformed")
        if not children:
            return Decision(None, conditions, float(seconds))
        (binding,) = children
        if not _is_of(binding, parent):
            raise ValueError("it decides on another binding than was asked about")
        if None in map(
            bindings.instant, (parent["spec"]["validFrom"], parent["spec"]["validUntil"])
        ):
            raise ValueError("it gives access whose times cannot be read")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OpaUnavailable(
            f"OPA's answer about {'/'.join(filter(None, _key(parent)))} is not a decision: {error}"
        ) from error
    return Decision(binding, conditions, float(seconds))


def _is_of(binding: Mapping[str, Any], parent: Object) -> bool:
    role, role_ref = binding["roleRef"], parent["spec"]["roleRef"]
    namespace = _key(parent)[0]
    return (
        _key(binding) == _key(parent)
        and binding["kind"] == kind_of(_key(parent)).child
        and (role["kind"], role["name"]) == (role_ref["kind"], role_ref["name"])
        and _named(binding["subjects"], namespace) == _named(parent["spec"]["subjects"], namespace)
    )


def _named(subjects: Any, namespace: str) -> set[tuple[str, str, str]]:
    return {
        (
            subject["kind"],
            subject["name"],
            (subject.get("namespace") or namespace) if subject["kind"] == "ServiceAccount" else "",
        )
        for subject in subjects
    }


def _key(value: Object) -> tuple[str, str]:
    metadata = value["metadata"]
    return str(metadata.get("namespace") or ""), str(metadata["name"])

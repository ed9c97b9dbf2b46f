"""Answers API servers whether an object Fairlead or Policy may be stored: whether it is right,
together with all others that are stored.

Who asks is not known, and an object may be stored without an answer. So nothing here changes
anything, and the lifecycle checks all of it again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.controller import CHECKED
from fairlead.kube import clients
from fairlead.kube.admission_reviews import API_VERSION
from fairlead.kube.own_kinds import NAME, VERSION
from fairlead.opa import cli
from fairlead.policy import parameter_rules, workspace
from fairlead.policy.policy_objects import FAIRLEAD, POLICY, Key, PolicyObjects, WrongObjects

log = logging.getLogger(__name__)

_WITHIN = 12.0
"""Seconds for the programs that check an object. API servers wait for 15
(92-objects.yaml.j2)."""
_TOLD = 10
"""The most mistakes that a refusal tells."""
_VALUES = 10_000
"""The most values of an object that is checked: each may be a mistake of its own."""
_LATER = re.compile(r"undefined function data\.")
"""What is not wrong any more once the object that brings the function is stored, too."""


class Reviews:
    """Answers reviews, one at a time."""

    def __init__(self, objects: clients.Objects) -> None:
        """`objects` is a client for nobody else."""
        self._objects = objects

    def answer(self, body: bytes) -> dict[str, Any]:
        """The answer to an AdmissionReview (v1), as an AdmissionReview. Raises ValueError if the
        body is none about an object of one of the kinds.
        """
        request = _request(body)
        response = {"allowed": True} if _is_as_before(request) else self._judged(request["object"])
        return {
            "apiVersion": API_VERSION,
            "kind": "AdmissionReview",
            "response": {"uid": request["uid"], **response},
        }

    def _judged(self, value: Mapping[str, Any]) -> dict[str, Any]:
        title = " ".join(_key(value))
        try:
            if _has_more_values(value, _VALUES):
                raise FairleadError(f"it has more than {_VALUES:,} values")
            with cli.limits(seconds=_WITHIN, memory=CHECKED):
                mistakes = self._mistakes(value)
        except (FairleadError, RecursionError) as error:
            self._objects.renew()
            log.warning("%s could not be checked: %s", title, error)
            return _allowed([f"{title} could not be checked before it was stored: {error}"])
        if any(not _LATER.search(mistake) for mistake in mistakes):
            message = "; ".join(f"{title}: {mistake}" for mistake in mistakes[:_TOLD])
            if further := len(mistakes[_TOLD:]):
                message += f"; and {further} more"
            return {"allowed": False, "status": {"message": message, "code": 422}}
        return _allowed([f"{title} waits for another Policy: {mistake}" for mistake in mistakes])

    def _mistakes(self, value: Mapping[str, Any]) -> Sequence[str]:
        """What is wrong with an object, whatever is wrong with others. Raises FairleadError if that
        cannot be said.
        """
        key = _key(value)
        fairlead = self._objects.get(VERSION, FAIRLEAD, NAME) or {"metadata": {"name": NAME}}
        stored = {_key(policy): policy for policy in self._objects.list(VERSION, POLICY, None)}
        stored.pop(key, None)
        while True:
            try:
                if key[0] == FAIRLEAD:
                    _check(value, [*stored.values()])
                else:
                    _check(fairlead, [*stored.values(), value])
            except WrongObjects as error:
                if mistakes := error.faults.get(key):
                    return mistakes
                if not stored.keys() & error.faults.keys():
                    raise
                stored = {name: each for name, each in stored.items() if name not in error.faults}
            else:
                return ()


def _check(fairlead: Mapping[str, Any], policies: Sequence[Mapping[str, Any]]) -> None:
    """Raises WrongObjects for mistakes in the objects, and FairleadError."""
    objects = PolicyObjects.read(fairlead, policies)
    with objects.explained():
        policy_set = objects.policy_set(parameter_rules.rules(Progress()))
        workspace.require_sound(policy_set)


def _request(body: bytes) -> Mapping[str, Any]:
    try:
        review = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    match review:
        case {
            "apiVersion": str(version),
            "request": {"uid": str(), "object": {"kind": str(kind), "metadata": {"name": str()}}},
        } if version == API_VERSION and kind in (FAIRLEAD, POLICY):
            request: Mapping[str, Any] = review["request"]
            return request
    raise ValueError(f"not an AdmissionReview of {API_VERSION} about a {FAIRLEAD} or a {POLICY}")


def _has_more_values(value: Any, most: int) -> bool:
    count, rest = 0, [value]
    while rest and count <= most:
        last = rest.pop()
        parts = last.values() if isinstance(last, dict) else last if isinstance(last, list) else ()
        count += len(parts)
        rest.extend(parts)
    return count > most


def _is_as_before(request: Mapping[str, Any]) -> bool:
    """Whether the spec stays: nobody could remove a finalizer of an object that is wrong."""
    before = request.get("oldObject")
    return isinstance(before, dict) and before.get("spec") == request["object"].get("spec")


def _key(value: Mapping[str, Any]) -> Key:
    return value["kind"], value["metadata"]["name"]


def _allowed(warnings: Sequence[str]) -> dict[str, Any]:
    return {"allowed": True, **({"warnings": warnings} if warnings else {})}

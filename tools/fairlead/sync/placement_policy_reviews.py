"""Answers API servers whether a PlacementPolicy may be stored: whether it compiles together with
the policies in force, and whether its package may be loaded.

Who sends a review is not known, and a policy may be stored without one. So nothing here changes
OPA, and the reconciler checks all of it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.deployment.names import PLACEMENT_POLICIES, POLICY_OBJECTS
from fairlead.kube.admission_reviews import API_VERSION
from fairlead.opa.compiler import Compiler, TooCostly
from fairlead.sync import placement_policies, placement_policy_status, policy_problems, refusals
from fairlead.sync.claims import Claims, meet
from fairlead.sync.config_maps import ConfigMap
from fairlead.sync.desired import Desired, Snapshot, snapshot
from fairlead.sync.placement_policies import KEY
from fairlead.sync.plans import InForce
from fairlead.sync.policy_problems import CLAIMED, Problem

_STORED = ("CREATE", "UPDATE")
_PREFIX = f"{POLICY_OBJECTS}/"
_LATEST = "9999"  # later than any creationTimestamp


class Unreadable(ValueError):
    """A body is not a review of a PlacementPolicy."""


class Reviews:
    """Answers reviews, one at a time."""

    def __init__(
        self,
        desired: Desired,
        in_force: Callable[[], InForce | None],
        compiler: Callable[[], Compiler],
        *,
        system: str | None,
        replicated: Sequence[Sequence[str]],
    ) -> None:
        """`in_force` returns what OPA holds, None if that is not known yet; `compiler` returns one
        for each review. For the other arguments see fairlead.sync.policy_problems.of_package.
        """
        self._desired = desired
        self._in_force = in_force
        self._compiler = compiler
        self._system = system
        self._replicated = replicated
        self._claims = Claims()

    def answer(self, body: bytes) -> dict[str, Any]:
        """The answer to an AdmissionReview (v1), as an AdmissionReview. Raises Unreadable."""
        request = _request(body)
        return {
            "apiVersion": API_VERSION,
            "kind": "AdmissionReview",
            "response": {"uid": request["uid"], **self._response(request)},
        }

    def _response(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request.get("operation") not in _STORED or request.get("subResource"):
            return {"allowed": True}
        policy = _policy(request.get("object"))
        before = request.get("oldObject")
        if isinstance(before, dict) and before.get("spec") == request["object"].get("spec"):
            return {"allowed": True}  # or nobody could remove a finalizer of a policy that is bad
        name = f"{PLACEMENT_POLICIES[1]} {policy.owner[1]}"
        in_force, desired = self._in_force(), self._desired.policies()
        if in_force is None or desired.unlisted:
            return _refused(f"{name} cannot be checked before OPA is loaded: try again", 503)
        try:
            problems, warnings = self._judge(policy, desired, in_force)
        except TooCostly as error:
            return _refused(f"{name}: {error}: split it, or make it simpler", 422)
        except FairleadError as error:
            return _refused(f"{name} cannot be checked: {error}", 500)
        errors = placement_policy_status.errors_of(policy, problems)
        if errors:
            return _refused(
                f"{name}: {'; '.join(map(placement_policy_status.sentence, errors))}", 422
            )
        return {"allowed": True, **({"warnings": warnings} if warnings else {})}

    def _judge(
        self, policy: ConfigMap, desired: Snapshot, in_force: InForce
    ) -> tuple[list[Problem], list[str]]:
        """The problems of a policy, and warnings if it has none."""
        if policy.problems:
            return list(policy.problems.values()), []
        item, text, compiler = policy.item(KEY), policy.texts[KEY], self._compiler()
        refusal = refusals.refusal(
            compiler, item, text, system=self._system, replicated=self._replicated
        )
        if refusal:
            return [refusal], []
        neighbours = (entry for entry in desired.config_maps if entry.owner != policy.owner)
        settled = self._claims.settle(
            snapshot([*neighbours, policy]), in_force.accepted, compiler.package
        )
        (candidate,) = (entry for entry in settled.config_maps if entry.owner == policy.owner)
        claimed = [problem for problem in candidate.problems.values() if problem["code"] == CLAIMED]
        modules = _beside(candidate, settled, in_force, claimed=bool(claimed))
        errors = compiler.errors({**modules, item[1]: text})
        if claimed:
            errors = [
                error for error in errors if (error.get("location") or {}).get("file") == item[1]
            ]
        warnings = [
            placement_policy_status.sentence(error)
            for error in placement_policy_status.errors_of(policy, claimed)
        ]
        return errors, warnings


def _beside(
    candidate: ConfigMap, settled: Snapshot, in_force: InForce, *, claimed: bool
) -> dict[str, str]:
    """The policies with which `candidate` is to be compiled, by their ids.

    These are those that OPA holds, and PlacementPolicies that it is about to get. Without those
    in its package, if it waits for the package (`claimed`), and without those that OPA is about to
    drop, if they are in its package.
    """
    accepted = {
        id_: text
        for (kind, id_), text in settled.texts.items()
        if id_.startswith(_PREFIX) and ((kind, id_), text) not in in_force.rejected
    }
    present = {entry.item(KEY)[1] for entry in settled.config_maps if entry.kind == "placement"}

    def gives_way(id_: str, text: str) -> bool:
        deleted = id_.startswith(_PREFIX) and id_ not in present
        package = policy_problems.plain_package(text) if claimed or deleted else None
        return bool(package and candidate.claim.path and meet(package, candidate.claim.path))

    return {
        id_: text
        for id_, text in {**in_force.policies, **accepted}.items()
        if not gives_way(id_, text)
    }


def _request(body: bytes) -> dict[str, Any]:
    try:
        review = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Unreadable("not JSON, or nested too deeply") from error
    if isinstance(review, dict) and review.get("apiVersion") == API_VERSION:
        request = review.get("request")
        if isinstance(request, dict) and isinstance(request.get("uid"), str):
            return request
    raise Unreadable(f"not an AdmissionReview of {API_VERSION}")


def _policy(value: Any) -> ConfigMap:
    match value:
        case {"metadata": {"name": str()}, "spec": {"rego": str()}}:
            try:
                policy = placement_policies.read({**value, "status": None})
            except (ValueError, RecursionError, TypeError) as error:
                raise Unreadable(f"a PlacementPolicy of another form: {error}") from error
            return replace(policy, created=policy.created or _LATEST)
    raise Unreadable("the object is not a PlacementPolicy with Rego")


def _refused(message: str, code: int) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": message, "code": code}}

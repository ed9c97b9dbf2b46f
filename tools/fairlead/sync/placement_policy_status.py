"""Words the status of a PlacementPolicy: what each replica reports of its OPA, and the conditions
that follow from all reports.

Source of the conditions' form: Kubernetes API conventions, "Typical status properties".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from urllib.parse import quote

from fairlead.common import texts
from fairlead.deployment.names import PLACEMENT_POLICIES, REPLICA_STATUS, STATUS
from fairlead.sync import placement_policies
from fairlead.sync.config_maps import Annotations, Claim, ConfigMap, Verdict
from fairlead.sync.policy_problems import CLAIMED, Problem
from fairlead.sync.stores import canonical

_LONGEST = 1000  # characters of one message: OPA quotes whole lines
_MOST = 10  # errors of one policy
_KIND = PLACEMENT_POLICIES[1]


class Status:
    """How the status of PlacementPolicies is written; see fairlead.sync.statuses.Form."""

    def own(self, config_map: ConfigMap, verdict: Verdict) -> str:
        """The report of one replica on its OPA."""
        errors = errors_of(config_map, verdict.problems)
        decided = {"lastDecision": json.loads(verdict.decided)} if verdict.decided else {}
        return canonical(
            {
                "revision": verdict.fingerprint,
                "generation": config_map.generation,
                "installed": not errors,
                "package": verdict.claim.package,
                "rivals": list(_rivals(verdict.claim)),
                "errors": errors,
                **decided,
            }
        )

    def counts(self, config_map: ConfigMap, report: str) -> bool:
        """Reports on an earlier revision count, too: those OPAs are still to install this one."""
        return "revision" in json.loads(report)

    def shared(self, config_map: ConfigMap, replicas: Mapping[str, str]) -> Annotations:
        """The combined status."""
        reports = [json.loads(report) for _, report in sorted(replicas.items())]
        current = [report for report in reports if report["revision"] == config_map.fingerprint]
        errors: list[Mapping[str, Any]] = []
        for report in current:
            errors += [error for error in report["errors"] if error not in errors]
        installed = sum(1 for report in current if report["installed"])
        count = f"{installed}/{len(reports)}"
        status = {
            "installed": count,
            "revision": config_map.fingerprint,
            "package": next((report["package"] for report in current if report["package"]), ""),
            "observedGeneration": config_map.generation,
            "errors": errors[:_MOST],
            **_last_decision(config_map, reports),
        }
        conditions = [_ready(installed, len(reports), errors), _conflicting(current)]
        return {STATUS: canonical({**status, "conditions": _conditions(config_map, conditions)})}

    def path(self, config_map: ConfigMap) -> str:
        """The path of the PlacementPolicy."""
        return f"{placement_policies.PATH}/{quote(config_map.owner[1], safe='')}"

    def read(self, config_map: ConfigMap, value: Mapping[str, Any]) -> ConfigMap:
        """The PlacementPolicy at this moment."""
        return placement_policies.read(value)

    def patch(self, config_map: ConfigMap, changes: Annotations) -> tuple[str, dict[str, Any]]:
        """The reports and the combined status that have changed."""
        reports = {
            key.removeprefix(REPLICA_STATUS): None
            if report is None
            else {"lastDecision": None, **json.loads(report)}
            for key, report in changes.items()
            if key.startswith(REPLICA_STATUS)
        }
        return "/status", {"status": {"opas": reports, **json.loads(changes.get(STATUS) or "{}")}}


def errors_of(config_map: ConfigMap, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """The first errors, each as {line, column, code, message}; the line is 0 if the error is in
    another file, which the message then names.
    """
    return list(islice(_errors(config_map, problems), _MOST))


def sentence(error: Mapping[str, Any]) -> str:
    """An error of `errors_of` in words, with its line."""
    prefix = f"line {error['line']}: " if error["line"] else ""
    return f"{prefix}{error['message']}"


def _errors(config_map: ConfigMap, problems: Sequence[Problem]) -> Iterator[dict[str, Any]]:
    _, own_id = config_map.item(placement_policies.KEY)
    for problem in problems:
        for error in problem.get("errors") or [problem]:
            location = error.get("location") or {}
            file, row, column = (location.get(key) for key in ("file", "row", "col"))
            message = str(error.get("message") or "no reason given")
            if file not in (None, own_id):
                message, row, column = f"{file}:{row}: {message}", 0, 0
            yield {
                "line": int(row or 0),
                "column": int(column or 0),
                "code": str(error.get("code") or ""),
                "message": message[:_LONGEST],
            }


Condition = tuple[str, str, str, str]  # type, status, reason, message


def _ready(installed: int, of: int, errors: Sequence[Mapping[str, Any]]) -> Condition:
    if errors:
        reason = "PackageClaimed" if errors[0]["code"] == CLAIMED else "Rejected"
        return "Ready", "False", reason, sentence(errors[0])
    if not of:
        return "Ready", "Unknown", "NoReport", "no OPA reports on this policy"
    if installed < of:
        return "Ready", "False", "Installing", f"installed on {installed} of {of} OPAs"
    return "Ready", "True", "Installed", f"installed on {installed} of {of} OPAs"


def _rivals(claim: Claim) -> Iterator[str]:
    """The names of the others that claim the package, each with the part that it claims if it does
    not claim all of it.
    """
    shared = dict(claim.shared)
    for name in claim.rivals:
        yield f"{name} (package {shared[name]})" if name in shared else name


def _conflicting(current: Sequence[Mapping[str, Any]]) -> Condition:
    rivals = sorted({rival for report in current for rival in report["rivals"]})
    if not rivals:
        return "Conflicting", "False", "PackageUnclaimed", "no other policy claims its package"
    package = next(report["package"] for report in current if report["rivals"])
    claimed = any(error["code"] == CLAIMED for report in current for error in report["errors"])
    outcome = "is not loaded" if claimed else "stays in force"
    claim = "claims" if len(rivals) == 1 else "claim"
    part = " or a part of it" if any(rival.endswith(")") for rival in rivals) else ""
    rival_names = " and ".join(filter(None, (", ".join(rivals[:-1]), rivals[-1])))
    message = f"this {_KIND} {outcome}: {rival_names} {claim} package {package}{part}, too"
    return "Conflicting", "True", "PackageClaimed", message[:_LONGEST]


def _before(config_map: ConfigMap) -> dict[str, Any]:
    """The combined status as it is."""
    return dict(json.loads(config_map.annotations.get(STATUS, "{}")))


def _last_decision(
    config_map: ConfigMap, reports: Sequence[Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """The latest decision of all OPAs, also of those that are gone; empty if there was none."""
    decisions = [
        report["lastDecision"]
        for report in (*reports, _before(config_map))
        if report.get("lastDecision")
    ]
    return {"lastDecision": max(decisions, key=_moment)} if decisions else {}


def _moment(decision: Mapping[str, Any]) -> tuple[str, str]:
    return str(decision["time"]), canonical(decision)


def _conditions(config_map: ConfigMap, conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """The conditions as Kubernetes writes them. The time changes only when the status does."""
    before = _before(config_map).get("conditions") or ()
    times = {(entry["type"], entry["status"]): entry["lastTransitionTime"] for entry in before}
    now = texts.time(datetime.now(UTC))
    return [
        {
            "type": type_,
            "status": status,
            "observedGeneration": config_map.generation,
            "lastTransitionTime": times.get((type_, status), now),
            "reason": reason,
            "message": message,
        }
        for type_, status, reason, message in conditions
    ]

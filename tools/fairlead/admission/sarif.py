"""Writes the report of a gate as SARIF, which code hosts show beside the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sarif_pydantic import (
    ArtifactLocation,
    Invocation,
    Level,
    Location,
    LogicalLocation,
    Message,
    PhysicalLocation,
    Region,
    ReportingDescriptor,
    Result,
    Run,
    Sarif,
    Tool,
    ToolDriver,
)
from sarif_pydantic.sarif import Notification

import fairlead
from fairlead.admission.gate import CHANGED, REFUSED, WARNED, Finding, Report, Verdict
from fairlead.common.errors import InputError

_LEVELS = {REFUSED: Level.ERROR, WARNED: Level.WARNING, CHANGED: Level.NOTE}
_UNREADABLE = "review"
"""The rule of requests that cannot be read, on which no intent decides."""


def document(report: Report) -> dict[str, Any]:
    """The SARIF log: one result for each refusal and each warning, and for each change if changes
    fail the gate. The id of a rule is its intent. A finding that fails the gate is an error.
    """
    findings = list(_findings(report))
    unreadable = {_UNREADABLE} if report.unreadable else set()
    rules = sorted({_rule(finding) for _, finding in findings} | unreadable)
    driver = ToolDriver(
        name="fairlead",
        version=fairlead.__version__,
        rules=[
            ReportingDescriptor(id=rule, short_description=Message(text=_described(rule)))
            for rule in rules
        ],
    )
    notifications = [
        Notification(level="warning", message=Message(text=warning)) for warning in report.warnings
    ]
    run = Run(
        tool=Tool(driver=driver),
        invocations=[
            # The model has no field for notifications, and takes more than its fields.
            Invocation(execution_successful=True, toolExecutionNotifications=notifications)
        ],
        results=[
            *(
                _result(verdict, finding, report, rules.index(_rule(finding)))
                for verdict, finding in findings
            ),
            *(_unreadable(problem, rules.index(_UNREADABLE)) for problem in report.unreadable),
        ],
    )
    log = Sarif(schema_uri="https://json.schemastore.org/sarif-2.1.0.json", runs=[run])
    dumped: dict[str, Any] = log.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped


def _findings(report: Report) -> Iterator[tuple[Verdict, Finding]]:
    for verdict in report.verdicts:
        for finding in verdict.findings:
            if finding.finding != CHANGED or CHANGED in report.fail_on:
                yield verdict, finding


def _result(verdict: Verdict, finding: Finding, report: Report, rule: int) -> Result:
    fails = finding.finding in report.fail_on
    location = PhysicalLocation(
        artifact_location=_location(verdict.path), region=Region(start_line=verdict.line or 1)
    )
    name = LogicalLocation(fully_qualified_name=verdict.subject.object)
    return Result(
        rule_id=_rule(finding),
        rule_index=rule,
        level=Level.ERROR if fails else _LEVELS[finding.finding],
        message=Message(text=f"{verdict.subject.object} is {finding.finding}: {finding.message}"),
        locations=[Location(physical_location=location, logical_locations=[name])],
    )


def _unreadable(problem: InputError, rule: int) -> Result:
    location = PhysicalLocation(
        artifact_location=_location(Path(str(problem.path))),
        region=Region(start_line=problem.line or 1),
    )
    return Result(
        rule_id=_UNREADABLE,
        rule_index=rule,
        level=Level.ERROR,
        message=Message(text=problem.problem),
        locations=[Location(physical_location=location)],
    )


def _location(path: Path) -> ArtifactLocation:
    """Relative to the working folder, which a code host takes as the repository's root."""
    cwd = Path.cwd()
    if path.is_absolute() and not path.is_relative_to(cwd):
        return ArtifactLocation(uri=path.as_uri())
    relative = path.relative_to(cwd) if path.is_absolute() else path
    return ArtifactLocation(uri=quote(relative.as_posix()), uri_base_id="%SRCROOT%")


def _rule(finding: Finding) -> str:
    return finding.intent or _UNREADABLE


def _described(rule: str) -> str:
    return "The request can be read" if rule == _UNREADABLE else f"The intent {rule} holds"

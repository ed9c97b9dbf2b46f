"""Writes the report of a gate as SARIF, which code hosts show beside the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fairlead
from fairlead.analysis.gate import CHANGED, REFUSED, WARNED, Finding, Report, Verdict

_LEVELS = {REFUSED: "error", WARNED: "warning", CHANGED: "note"}
_UNREADABLE = "review"
"""The rule of requests that cannot be read, on which no intent decides."""


def document(report: Report) -> dict[str, Any]:
    """The SARIF log: one result for each refusal and each warning, and for each change if changes
    fail the gate. The id of a rule is its intent. A finding that fails the gate is an error.
    """
    findings = list(_findings(report))
    rules = sorted({_rule(finding) for _, finding in findings})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "fairlead",
                        "version": fairlead.__version__,
                        "rules": [
                            {"id": rule, "shortDescription": {"text": _described(rule)}}
                            for rule in rules
                        ],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "warning", "message": {"text": warning}}
                            for warning in report.warnings
                        ],
                    }
                ],
                "results": [
                    _result(verdict, finding, report, rules.index(_rule(finding)))
                    for verdict, finding in findings
                ],
            }
        ],
    }


def _findings(report: Report) -> Iterator[tuple[Verdict, Finding]]:
    for verdict in report.verdicts:
        for finding in verdict.findings:
            if finding.finding != CHANGED or CHANGED in report.fail_on:
                yield verdict, finding


def _result(verdict: Verdict, finding: Finding, report: Report, rule: int) -> dict[str, Any]:
    fails = finding.finding in report.fail_on
    return {
        "ruleId": _rule(finding),
        "ruleIndex": rule,
        "level": "error" if fails else _LEVELS[finding.finding],
        "message": {
            "text": f"{verdict.subject.object} is {finding.finding}: {finding.message}",
        },
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _location(verdict.path),
                    "region": {"startLine": verdict.line or 1},
                },
                "logicalLocations": [{"fullyQualifiedName": verdict.subject.object}],
            }
        ],
    }


def _location(path: Path) -> dict[str, str]:
    """Relative to the working folder, which a code host takes as the repository's root."""
    here = Path.cwd()
    if path.is_absolute() and not path.is_relative_to(here):
        return {"uri": path.as_uri()}
    relative = path.relative_to(here) if path.is_absolute() else path
    return {"uri": quote(relative.as_posix()), "uriBaseId": "%SRCROOT%"}


def _rule(finding: Finding) -> str:
    return finding.intent or _UNREADABLE


def _described(rule: str) -> str:
    return "The request can be read" if rule == _UNREADABLE else f"The intent {rule} holds"

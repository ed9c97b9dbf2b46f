"""Prints the report of `fairlead eval` on many objects."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from fairlead.admission import gate
from fairlead.admission.gate import Report, Verdict
from fairlead.cli import output as out
from fairlead.cli.decisions import grouped
from fairlead.common import texts
from fairlead.inputs import manifest_files

FORMATS = ("junit", "sarif")
"""The formats that only such a report has."""

_SKIPPED = {
    manifest_files.OTHER: "no Kubernetes objects",
    manifest_files.ENCRYPTED: "encrypted by SOPS",
    manifest_files.TEMPLATE: "Helm templates",
    manifest_files.UNUSED: "Components that no kustomization uses",
}


def emit(report: Report, output: str) -> None:
    """Print the report in the format `output`, and what makes it uncertain to stderr."""
    # Imported here, as these two libraries take as long to load as a gate needs to decide.
    if output == "junit":
        from fairlead.admission import junit

        out.line(junit.document(report))
    elif output == "sarif":
        from fairlead.admission import sarif

        out.line(json.dumps(sarif.document(report), indent=2))
    else:
        out.emit(_data(report), output, lambda console: _draw(console, report))
    out.note(f"intents: {', '.join(report.intents) or 'none is in force'}")
    for warning in report.warnings:
        out.warning(warning)
    for problem in report.unreadable:
        out.error(str(problem))


def _data(report: Report) -> dict[str, Any]:
    return {
        "objects": [_verdict_data(verdict) for verdict in report.verdicts],
        "counts": report.counts,
        "failed": report.failed,
        "unreadable": [
            {"file": str(problem.path), "line": problem.line, "message": problem.problem}
            for problem in report.unreadable
        ],
        "skipped": sum(report.skipped.values()),
        "skippedKinds": dict(report.skipped),
        "intents": list(report.intents),
        "unknownNamespaces": list(report.unknown),
    }


def _verdict_data(verdict: Verdict) -> dict[str, Any]:
    return {
        "file": str(verdict.path),
        "line": verdict.line,
        "operation": verdict.subject.operation,
        "kind": verdict.subject.kind,
        "namespace": verdict.subject.namespace,
        "name": verdict.subject.name,
        "outcome": verdict.outcome,
        "failed": verdict.failed,
        "findings": [
            {"finding": finding.finding, "intent": finding.intent, "message": finding.message}
            for finding in verdict.findings
        ],
        "patch": list(verdict.patch),
        "notes": list(verdict.notes),
    }


def _draw(console: Console, report: Report) -> None:
    """One line for each finding, with its place first, as compilers print it. Changes are only
    counted, unless they fail the gate.
    """
    findings = {gate.REFUSED, gate.WARNED, *report.fail_on}
    lines = [
        f"{_place(verdict)}: {finding.finding}: {verdict.subject.object}: {finding.message}"
        f"{f' [{finding.intent}]' if finding.intent else ''}"
        for verdict in report.verdicts
        for finding in verdict.findings
        if finding.finding in findings
    ]
    for line in lines:
        console.print(texts.printable(line), soft_wrap=True)
    if lines:
        console.print()
    place = f" in {texts.counted(report.files, 'file')}"
    parts = [grouped.counts(report.counts, "object", place)]
    parts += [
        f"skipped, as {_SKIPPED[what]}: {report.skipped[what]}"
        for what in _SKIPPED
        if report.skipped.get(what)
    ]
    parts += [f"not readable: {len(report.unreadable)}"] if report.unreadable else []
    console.print("; ".join(parts), soft_wrap=True)


def _place(verdict: Verdict) -> str:
    return f"{verdict.path}:{verdict.line}" if verdict.line else str(verdict.path)

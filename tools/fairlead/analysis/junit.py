"""Makes JUnit XML of the report of a gate."""

from __future__ import annotations

from fairlead.analysis.gate import Report, Verdict
from fairlead.common import junit_xml
from fairlead.common.junit_xml import Failure, Suite, Test


def document(report: Report) -> str:
    """The XML: one test for each object, which fails if the object fails the gate. Its class is the
    file.
    """
    tests = [_test(verdict) for verdict in report.verdicts]
    return junit_xml.document([Suite("fairlead eval", tests, report.warnings)])


def _test(verdict: Verdict) -> Test:
    file = str(verdict.path)
    place = f"{file}:{verdict.line}" if verdict.line else file
    text = "\n".join(
        f"{place}: {finding.finding}{f' by {finding.intent}' if finding.intent else ''}: "
        f"{finding.message}"
        for finding in verdict.findings
    )
    return Test(
        name=f"{verdict.subject.operation} of {verdict.subject.object}",
        classname=file,
        file=file,
        line=verdict.line,
        failure=Failure(verdict.outcome, verdict.findings[0].message, text)
        if verdict.failed
        else None,
        output="" if verdict.failed else text,
    )

"""Writes JUnit XML, which CI servers show as test results."""

from __future__ import annotations

import re
from collections.abc import Iterable

import junitparser
from junitparser import Attr, Failure, IntAttr, JUnitXml, TestSuite
from junitparser.junitparser import SystemErr

from fairlead.admission.gate import Report, Verdict
from fairlead.common import texts
from fairlead.common.errors import InputError

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class TestCase(junitparser.TestCase):
    """A test with its place in a file; `line` counts from 1."""

    file = Attr()
    line = IntAttr()


def document(report: Report) -> str:
    """The report of a gate as XML: one test for each object, which fails if the object fails the
    gate. Its class is the file.
    """
    unreadable = map(_unreadable, report.unreadable)
    suite = suite_of("fairlead eval", [*map(_case, report.verdicts), *unreadable])
    if report.warnings:
        warnings = "\n".join(map(texts.printable, report.warnings))
        suite.append(SystemErr(printable(warnings)))
    return xml([suite])


def suite_of(name: str, cases: Iterable[TestCase]) -> TestSuite:
    """Tests that belong together."""
    suite = TestSuite(name)
    suite.add_testcases(list(cases))
    return suite


def xml(suites: Iterable[TestSuite]) -> str:
    """The XML with these suites. Characters outside of ASCII are escaped, so that the encoding of
    the output does not matter.
    """
    document = JUnitXml()
    for suite in suites:
        document.add_testsuite(suite)
    document.update_statistics()
    text: str = document.tostring().decode()
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def failed(kind: str, message: str, text: str) -> Failure:
    """Why a test failed: one word, one sentence, and the whole text."""
    failure = Failure(printable(message), kind)
    failure.text = printable(text)
    return failure


def printable(text: str) -> str:
    """The text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def _unreadable(problem: InputError) -> TestCase:
    file = printable(str(problem.path))
    case = TestCase("can be read", file)
    case.file = file
    if problem.line:
        case.line = problem.line
    case.result = failed("unreadable", problem.problem, str(problem))
    return case


def _case(verdict: Verdict) -> TestCase:
    file = printable(str(verdict.path))
    location = f"{file}:{verdict.line}" if verdict.line else file
    # A line of a log that begins with `::` is a command for GitHub's runners.
    text = "\n".join(
        texts.printable(
            f"{location}: {finding.finding}{f' by {finding.intent}' if finding.intent else ''}: "
            f"{finding.message}"
        )
        for finding in verdict.findings
    )
    name = printable(f"{verdict.subject.operation} of {verdict.subject.object}")
    case = TestCase(name, file)
    case.file = file
    if verdict.line:
        case.line = verdict.line
    if verdict.failed:
        case.result = failed(verdict.outcome, verdict.findings[0].message, text)
    elif text:
        case.system_out = printable(text)
    return case

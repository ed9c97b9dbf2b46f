"""Writes the report of a gate as JUnit XML, which CI servers show as test results."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from fairlead.analysis.gate import Report, Verdict

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(report: Report) -> str:
    """The XML: one testcase for each object, which fails if the object fails the gate. Its class
    is the file.
    """
    counts = {
        "tests": str(len(report.verdicts)),
        "failures": str(report.failed),
        "errors": "0",
        "skipped": "0",
    }
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "fairlead eval", **counts})
    for verdict in report.verdicts:
        _add(suite, verdict)
    if report.warnings:
        ElementTree.SubElement(suite, "system-err").text = _text("\n".join(report.warnings))
    ElementTree.indent(root)
    # Characters outside of ASCII are escaped, so that the encoding of the output does not matter.
    xml: bytes = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return xml.decode("ascii")


def _add(suite: ElementTree.Element, verdict: Verdict) -> None:
    file = str(verdict.path)
    case = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": _text(file),
            "name": _text(f"{verdict.subject.operation} of {verdict.subject.object}"),
            "file": _text(file),
        },
    )
    place = f"{file}:{verdict.line}" if verdict.line else file
    lines = [
        f"{place}: {finding.finding}{f' by {finding.intent}' if finding.intent else ''}: "
        f"{finding.message}"
        for finding in verdict.findings
    ]
    if verdict.failed:
        first = {"type": verdict.outcome, "message": _text(verdict.findings[0].message)}
        ElementTree.SubElement(case, "failure", first).text = _text("\n".join(lines))
    elif lines:
        ElementTree.SubElement(case, "system-out").text = _text("\n".join(lines))


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)

"""Writes JUnit XML, which CI servers show as test results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

# What XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Failure:
    """Why a test failed: one word, one sentence, and the whole text."""

    kind: str
    message: str
    text: str


@dataclass(frozen=True)
class Test:
    """One test. `line` counts from 1; None if it is not known.

    `skipped` says why it did not run, None if it ran. `output` is a text about it, if any.
    """

    name: str
    classname: str
    file: str
    line: int | None = None
    failure: Failure | None = None
    skipped: str | None = None
    output: str = ""


@dataclass(frozen=True)
class Suite:
    """Tests that belong together, and what is uncertain about all of them."""

    name: str
    tests: Sequence[Test]
    warnings: Sequence[str] = ()


def document(suites: Sequence[Suite]) -> str:
    """The XML with these suites."""
    root = ElementTree.Element("testsuites", _counts(t for suite in suites for t in suite.tests))
    for suite in suites:
        attributes = {"name": _text(suite.name), **_counts(suite.tests)}
        element = ElementTree.SubElement(root, "testsuite", attributes)
        for test in suite.tests:
            _add(element, test)
        if suite.warnings:
            ElementTree.SubElement(element, "system-err").text = _text("\n".join(suite.warnings))
    ElementTree.indent(root)
    # Characters outside of ASCII are escaped, so that the encoding of the output does not matter.
    xml: bytes = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return xml.decode("ascii")


def _counts(tests: Iterable[Test]) -> dict[str, str]:
    counted = list(tests)
    return {
        "tests": str(len(counted)),
        "failures": str(sum(test.failure is not None for test in counted)),
        "errors": "0",
        "skipped": str(sum(test.skipped is not None for test in counted)),
    }


def _add(suite: ElementTree.Element, test: Test) -> None:
    attributes = {"classname": test.classname, "name": test.name, "file": test.file}
    attributes |= {"line": str(test.line)} if test.line else {}
    element = ElementTree.SubElement(
        suite, "testcase", {key: _text(value) for key, value in attributes.items()}
    )
    if test.failure:
        first = {"type": test.failure.kind, "message": _text(test.failure.message)}
        ElementTree.SubElement(element, "failure", first).text = _text(test.failure.text)
    if test.skipped is not None:
        ElementTree.SubElement(element, "skipped", {"message": _text(test.skipped)})
    if test.output:
        ElementTree.SubElement(element, "system-out").text = _text(test.output)


def _text(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)

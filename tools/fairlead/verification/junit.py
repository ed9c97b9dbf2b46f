"""Makes JUnit XML of the results of cases."""

from __future__ import annotations

from collections.abc import Sequence

from junitparser import Skipped

from fairlead.admission import junit
from fairlead.admission.junit import TestCase, printable
from fairlead.verification.verify import Result


def document(results: Sequence[Result]) -> str:
    """The XML: one suite for each engine, with a test for each case, whose class is the intent. A
    case that the engine cannot express is skipped.
    """
    by_engine: dict[str, list[TestCase]] = {}
    for result in results:
        by_engine.setdefault(result.engine, []).append(_case(result))
    return junit.xml(
        junit.suite_of(f"fairlead verify {engine}", cases) for engine, cases in by_engine.items()
    )


def _case(result: Result) -> TestCase:
    case = TestCase(printable(result.case), printable(f"{result.engine}.{result.intent}"))
    case.file = printable(str(result.source.path))
    case.line = result.source.line
    if result.passed is None:
        case.result = Skipped(printable(result.detail))
    elif result.passed is False:
        lines = [f"{label}: {text}" if label else f"  {text}" for label, text in result.fields]
        text = "\n".join([*lines, *([result.diff] if result.diff else [])])
        case.result = junit.failed("failed", result.detail.partition("\n")[0], text)
    return case

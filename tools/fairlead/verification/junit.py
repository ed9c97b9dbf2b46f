"""Makes JUnit XML of the results of cases."""

from __future__ import annotations

from collections.abc import Sequence

from fairlead.common import junit_xml
from fairlead.common.junit_xml import Failure, Suite, Test
from fairlead.verification.verify import Result


def document(results: Sequence[Result]) -> str:
    """The XML: one suite for each engine, with a test for each case, whose class is the intent. A
    case that the engine cannot express is skipped.
    """
    by_engine: dict[str, list[Test]] = {}
    for result in results:
        by_engine.setdefault(result.engine, []).append(_test(result))
    return junit_xml.document(
        [Suite(f"fairlead verify {engine}", tests) for engine, tests in by_engine.items()]
    )


def _test(result: Result) -> Test:
    failure = None
    if result.passed is False:
        lines = [f"{label}: {text}" if label else f"  {text}" for label, text in result.fields]
        text = "\n".join([*lines, *([result.diff] if result.diff else [])])
        failure = Failure("failed", result.detail.partition("\n")[0], text)
    return Test(
        name=result.case,
        classname=f"{result.engine}.{result.intent}",
        file=str(result.source.path),
        line=result.source.line,
        failure=failure,
        skipped=result.detail if result.passed is None else None,
    )

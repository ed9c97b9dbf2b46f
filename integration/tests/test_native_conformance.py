"""Every conformance case, on a real API server that decides by itself, by admission policies."""

from __future__ import annotations

import pytest

from fairlead import verification
from fairlead.common.progress import Progress
from fairlead.policy import cases
from fairlead.verification.verify import verify

pytestmark = [
    pytest.mark.long,
    pytest.mark.embedded("the engine cel starts its own cluster"),
]


def test_every_case_holds_on_admission_policies() -> None:
    every = cases.load(None)
    results = verify(every, verification.load(["cel"]), Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is False] == []
    decided = [result for result in results if result.passed]
    assert len(decided) >= 150

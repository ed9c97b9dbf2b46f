"""Every conformance case, on a real API server that asks a real OPA: through a cluster of the engine's own."""

from __future__ import annotations

from fairlead import cases, engines
from fairlead.progress import Progress
from fairlead.verify import verify


def test_every_case_holds_on_the_api_server() -> None:
    wanted = cases.load(None)
    results = verify(wanted, engines.load(["webhook"]), Progress())
    assert [f"{r.case}: {r.detail}" for r in results if r.passed is not True] == []
    assert len(results) == len(wanted) >= 40

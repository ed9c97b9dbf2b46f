"""Few conformance cases in place of all, for engines that need a real API server: `make test-all`
takes all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fairlead.policy.cases import Case


def cases(every: Sequence[Case]) -> list[Case]:
    """Cases that have together, of each intent, each operation on each kind of object, and each
    outcome of each operation in each mode of enforcement; in their order.

    Those that bring most of what the chosen ones lack come first, and of settings that the chosen
    ones have already: to deploy other settings costs more than ten cases.
    """
    lacking = {feature for case in every for feature in features(case)}
    left, settings, names = list(every), set[str](), set[str]()
    while lacking:
        best = max(
            left,
            key=lambda case: (
                len(features(case) & lacking)
                - (0.5 if case.settings.model_dump_json() not in settings else 0)
            ),
        )
        left.remove(best)
        lacking -= features(best)
        settings.add(best.settings.model_dump_json())
        names.add(best.name)
    return [case for case in every if case.name in names]


def features(case: Case) -> set[Hashable]:
    """What a case shows of its intent."""
    expect, manifest = case.expect, case.request.manifest or {}
    changed = expect.object is not None and expect.object != manifest
    outcome = "refused" if not expect.allowed else "changed" if changed else "left alone"
    intent, operation = case.intent, case.request.operation
    return {
        (intent, operation, manifest.get("kind")),
        (intent, operation, case.settings.mode(intent), outcome),
    }

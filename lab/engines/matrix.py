"""Makes the table in docs/engines.md: how many cases of each intent an engine passes, and what it
cannot express. Whether it passes them is tested by integration/tests/test_conformance.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.engines.base import Engine
from fairlead.policy import cases
from fairlead.policy.cases import Case
from fairlead.verification import load
from lab.engines.cel import CelEngine
from lab.engines.gatekeeper import GatekeeperEngine
from lab.engines.kyverno import KyvernoEngine
from lab.engines.webhook import WebhookEngine

_BEGIN, _END = "<!-- made by `make generate`: conformance -->", "<!-- end -->"


def texts() -> Mapping[Path, str]:
    """The page with the table, and what it should hold. Raises InputError."""
    page = paths.root() / "docs" / "engines.md"
    text = yaml_files.read_text(page)
    every = [*load(()), WebhookEngine(), CelEngine(), GatekeeperEngine(), KyvernoEngine()]
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise InputError(page, f"lacks the lines {_BEGIN} and {_END}: put them back")
    return {page: f"{before}{begin}\n\n{table(cases.load(), every)}\n{end}{after}"}


def table(cases: Sequence[Case], engines: Sequence[Engine]) -> str:
    """A table of intents and engines, and below it the reasons why cases cannot be expressed."""
    by_intent: dict[str, list[Case]] = {}
    for case in cases:
        by_intent.setdefault(case.intent, []).append(case)
    lines = [
        f"| intent | cases | {' | '.join(f'`{engine.name}`' for engine in engines)} |",
        f"|---|---|{'---|' * len(engines)}",
    ]
    reasons: Counter[tuple[str, str, str]] = Counter()
    for intent, of_intent in sorted(by_intent.items()):
        cells = []
        for engine in engines:
            missing = [reason for case in of_intent if (reason := engine.inexpressible(case))]
            reasons.update((engine.name, intent, reason) for reason in missing)
            cells.append(_cell(len(of_intent), len(missing)))
        lines.append(f"| `{intent}` | {len(of_intent)} | {' | '.join(cells)} |")
    notes = []
    for (engine_name, intent, reason), count in sorted(reasons.items()):
        of = f"{count} case{'s' if count > 1 else ''} of `{intent}`"
        notes.append(f"- `{engine_name}` cannot express {of}: {reason}.")
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _cell(total: int, missing: int) -> str:
    if not missing:
        return "all"
    return f"{total - missing}" if missing < total else "none"

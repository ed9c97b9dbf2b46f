"""Shows how decisions change, and carries them out, for `fairlead place --watch`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli import output as out
from fairlead.cli.placement import place_reports
from fairlead.cli.placement.place_options import Execution
from fairlead.common.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.placement.changes import Change
    from fairlead.placement.hosts import Host
    from fairlead.placement.watching import Decision, Watch

_COLUMNS = ("application", "from", "to", "replicas", "costBefore", "costAfter")


@dataclass(frozen=True)
class _Printed:
    """What was printed about the last decision, and need not be printed again as long as nothing
    differs: its changes, if they could not be carried out, and the problems.
    """

    unfinished: Sequence[Change] = ()
    problems: Collection[str] = ()


def run(
    paths: Sequence[Path],
    data_sources: Sequence[str],
    execution: Execution,
    *,
    folder: Path | None,
    output: str,
) -> int:
    """Follow the decisions until Ctrl-C or SIGTERM. Raises UsageError for what cannot be read at
    first.
    """
    # Here, as the Kubernetes client takes longer to load than OPA to decide.
    from fairlead.placement import host_inputs
    from fairlead.placement.file_inputs import FileInputs
    from fairlead.placement.watching import Watch

    with ExitStack() as stack:
        host = execution.host()
        progress = out.quiet()
        source = (
            stack.enter_context(
                host_inputs.followed(
                    host, execution.selector, applies=execution.applied, progress=progress
                )
            )
            if host
            else FileInputs(paths, data_sources)
        )
        watch = Watch(
            source,
            folder=folder,
            moves_volumes=execution.moves_volumes,
            progress=progress,
        )
        printed = _Printed()
        notes: set[str] = set()
        try:
            while True:
                decision = watch.next()
                _show(decision, output, printed)
                notes = place_reports.emit_notes(decision.result, notes)
                if host and execution.applied:
                    printed = _apply(watch, decision, host, printed)
                else:
                    for text in decision.notes:
                        out.note(text)
        except KeyboardInterrupt:
            out.note("stopped watching")
    return 0


def _show(decision: Decision, output: str, before: _Printed) -> None:
    place_reports.emit_errors(decision.result)
    if decision.changes and decision.changes != before.unfinished:
        rows = [_row(change) for change in decision.changes]
        format_ = output if output in out.FORMATS else "table"
        out.emit(rows, format_, out.rows(None, _COLUMNS, rows))
        out.flush()


def _apply(watch: Watch, decision: Decision, host: Host, before: _Printed) -> _Printed:
    """Carry out the decision in the host cluster; `before` is what the last call returned."""
    from fairlead.placement import karmada_apply

    try:
        report = karmada_apply.keep(decision.result, host, progress=out.plain())
    except FairleadError as error:
        out.error(str(error))
        watch.failed()
        return _Printed(decision.changes)
    place_reports.emit(report, unchanged=False, printed=before.problems)
    out.flush()
    if not report.problems:
        return _Printed()
    watch.failed()
    return _Printed(decision.changes, report.problems)


def _row(change: Change) -> dict[str, Any]:
    return {
        "application": change.title,
        "from": change.source,
        "to": change.target,
        "replicas": change.replicas,
        "costBefore": _rounded(change.cost_before),
        "costAfter": _rounded(change.cost_after),
    }


def _rounded(cost: float | None) -> float | None:
    """A cost with four digits that count."""
    return None if cost is None else float(f"{cost:.4g}")

"""Shows how decisions change, and carries them out, for `fairlead place --watch`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairlead.cli import output as out
from fairlead.cli.placement import place_execution
from fairlead.cli.placement.place_options import Execution
from fairlead.common import files
from fairlead.common.errors import FairleadError

if TYPE_CHECKING:
    from fairlead.federation.changes import Change
    from fairlead.federation.watching import Decision, Watch

_COLUMNS = ("application", "from", "to", "replicas", "costBefore", "costAfter")


@dataclass(frozen=True)
class _Printed:
    """What was printed about the last decision, and need not be printed again as long as nothing
    differs: its changes, if they could not be carried out, and the notes and problems.
    """

    unfinished: Sequence[Change] = ()
    sentences: Collection[str] = ()


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
    from fairlead.federation import host_inputs, live_replicas, members
    from fairlead.federation.file_inputs import FileInputs
    from fairlead.federation.watching import Watch

    clusters = members.parsed(execution.members, execution.kubeconfig)

    def running(workloads: Sequence[files.Document]) -> dict[str, dict[str, int]]:
        return live_replicas.of(workloads, clusters)

    with ExitStack() as stack:
        host = execution.host_member()
        source = (
            stack.enter_context(host_inputs.followed(host, execution.selector))
            if host
            else FileInputs(paths, data_sources)
        )
        watch = Watch(source, running, folder=folder, progress=out.quiet())
        printed = _Printed()
        try:
            while True:
                printed = _follow(watch, watch.next(), execution, output, printed)
        except KeyboardInterrupt:
            out.note("stopped watching; the next run goes on from what the clusters have")
    return 0


def _follow(
    watch: Watch, decision: Decision, execution: Execution, output: str, before: _Printed
) -> _Printed:
    """Show what a decision moves, and carry it out; `before` is what the last call returned."""
    result = decision.result
    place_execution.tell_errors(result)
    if decision.changes and decision.changes != before.unfinished:
        rows = [_row(change) for change in decision.changes]
        shown = output if output in out.FORMATS else "table"
        out.emit(rows, shown, out.rows(None, _COLUMNS, rows))
        out.flush()
    if not execution.applied:
        for text in decision.notes:
            out.note(text)
        return _Printed()
    if any(placement.errors for placement in result.placements) and not execution.host:
        out.note("nothing was changed")
        return _Printed()
    try:
        report = place_execution.carried_out(result, execution, out.plain())
    except FairleadError as error:
        out.error(str(error))
        watch.failed()
        return _Printed(decision.changes)
    place_execution.emit(result, report, output, unchanged=False, known=before.sentences)
    out.flush()
    sentences = [*report.notes, *report.problems]
    if not report.problems:
        return _Printed(sentences=sentences)
    watch.failed()
    return _Printed(decision.changes, sentences)


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

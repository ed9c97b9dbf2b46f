"""Shows the demo of placement over clusters, for `fairlead demo --federation`."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fairlead.cli import output as out
from fairlead.common.errors import FairleadError
from fairlead.demos import federation as library
from fairlead.demos.federation import Played, Step


def run(output: str, *, keep: bool) -> None:
    """Start the API server, play each step, and show it; with `keep`, the server goes on running.

    Raises FairleadError at the first step that is not as expected.
    """
    source = library.folder()
    scenario = library.scenario(source)
    results: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="fairlead-demo-"))
        if not keep:
            stack.callback(shutil.rmtree, folder)
        library.copy(source, folder)
        with out.progress() as progress:
            cluster, server = stack.enter_context(library.server(folder, progress=progress))
        for number, step in enumerate(scenario.steps, 1):
            if output == "table":
                _announce(number, step)
            played = library.play(step, server, folder, columns=out.columns())
            results.append(_result(step, played))
            if output == "table":
                _show(step, played)
            if played.problems:
                problems = "; ".join(played.problems)
                raise FairleadError(f"step {number} ({step.title}): {problems}")
        if keep:
            cluster.detach()
    out.emit(results, output, lambda console: console.print("All steps went as expected."))
    if keep:
        out.note(
            f"the API server runs on: export KUBECONFIG={cluster.kubeconfig}; {folder} has the "
            f"manifests; `fairlead down --name {library.CLUSTER}` ends it"
        )


def _announce(number: int, step: Step) -> None:
    console = out.console()
    console.print(f"{number}. {step.title}", style="bold", soft_wrap=True)
    if step.command:
        console.print(f"$ fairlead {step.command}", style="cyan", soft_wrap=True)


def _show(step: Step, played: Played) -> None:
    for text in (played.diff, "" if step.engine else played.printed.rstrip()):
        if text:
            out.line(text)
    for kind, number in played.applied.items():
        out.line(f"{kind}: the API server accepts {number} of {number}")
    if played.skipped:
        out.note(f"not applied: {played.skipped}")
    out.line()


def _result(step: Step, played: Played) -> dict[str, Any]:
    return {
        "step": step.title,
        "command": f"fairlead {step.command}" if step.command else None,
        "applied": dict(played.applied) or None,
        "skipped": played.skipped or None,
        "seconds": round(played.seconds, 1),
        "problems": list(played.problems),
    }

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
    """Start the members, play each step, and show it; with `keep`, they go on running.

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
            members = library.members(scenario.members, folder, progress=progress)
            clusters = stack.enter_context(members)
        for number, step in enumerate(scenario.steps, 1):
            line = library.command_line(step, scenario.members)
            if output == "table":
                _announce(number, step, line)
            played = library.play(step, clusters, folder, columns=out.columns())
            results.append(_result(step, line, played))
            if output == "table":
                _show(step, played)
            if played.problems:
                problems = "; ".join(played.problems)
                raise FairleadError(f"step {number} ({step.title}): {problems}")
        if keep:
            for cluster in clusters.values():
                cluster.detach()
    out.emit(results, output, lambda console: console.print("All steps went as expected."))
    if keep:
        names = ", ".join(f"`fairlead down --name {name}`" for name in scenario.members)
        out.note(f"the members run on, and {folder} has their manifests: {names} end them")


def _announce(number: int, step: Step, line: str) -> None:
    console = out.console()
    console.print(f"{number}. {step.title}", style="bold", soft_wrap=True)
    if line:
        console.print(f"$ {line}", style="cyan", soft_wrap=True)


def _show(step: Step, played: Played) -> None:
    for text in (played.diff, played.printed.rstrip()):
        if text:
            out.line(text)
    if step.running is not None:
        lines = [
            {"member": name, "expected": expected, "running": played.running[name]}
            for name, expected in step.running.items()
        ]
        out.line()
        out.rows("Pods that run in the members", ("member", "expected", "running"), lines)(
            out.console()
        )
        never = f"; never fewer than {played.fewest} in all ran meanwhile" if played.fewest else ""
        out.line(f"seen after {played.seconds:.0f} s{never}")
    out.line()


def _result(step: Step, line: str, played: Played) -> dict[str, Any]:
    return {
        "step": step.title,
        "command": line or None,
        "expected": step.running,
        "running": dict(played.running) or None,
        "fewest": played.fewest,
        "seconds": round(played.seconds, 1),
        "problems": list(played.problems),
    }

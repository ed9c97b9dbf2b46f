"""`fairlead convert`: write fairlead.yaml from policies of other programs."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.convert import conversion


@click.command()
@options.manifests
@options.output
def command(paths: tuple[Path, ...], output: str) -> int:
    """Print the fairlead.yaml that does what policies of other programs do: mutators and
    constraints of Gatekeeper, policies of Kyverno that mutate or validate, also in CEL, and the
    configuration of the admission plugins PodNodeSelector and PodTolerationRestriction.

    A FILE holds their objects, namespaces with annotations, or a plugin's file, as YAML or JSON;
    - is standard input. Of a FOLDER, all .yaml, .yml and .json files are read, except hidden ones.
    What the settings cannot say is listed on stderr and at the top of the result. See
    docs/convert.md.

    Exit code: 0 if everything was taken over, 1 if something was not, 2 if a file has a mistake.
    """
    with out.progress() as progress:
        result = conversion.convert(paths, progress)
    data = {
        "settings": result.settings,
        "nextSteps": list(result.next_steps),
        "differences": list(result.differences),
        "assumptions": list(result.assumptions),
        "notTakenOver": [
            {
                "source": part.origin.source,
                "object": part.origin.object,
                "reason": part.reason,
            }
            for part in result.not_taken_over
        ],
    }
    out.emit(data, output, lambda _: out.line(result.text.rstrip()))
    for part in result.not_taken_over:
        out.warning(f"{part.origin.source}: not taken over: {part.origin.object}: {part.reason}")
    for assumption in result.assumptions:
        out.note(f"taken for granted: {assumption}")
    for step in result.next_steps:
        out.note(f"then run: {step}")
    return int(bool(result.not_taken_over))

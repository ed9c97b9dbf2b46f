"""`fairlead place`: show on which clusters workloads run, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.placement import place_formats, place_options, place_reports, place_watch
from fairlead.common import texts, yaml_files, yaml_texts
from fairlead.common.progress import Progress
from fairlead.placement import decisions, sources
from fairlead.placement.decisions import Result
from fairlead.placement.followers import ABSENT
from fairlead.placement.placements import Placement

if TYPE_CHECKING:
    from fairlead.placement.hosts import Host

_ANNOTATIONS = "annotations"
_COLUMNS = ("cluster", "weight", "replicas", "cost", "why")
_COLUMNS_OF_OTHERS = ("object", "clusters", "why")


@click.command()
@options.manifests_by_flag
@options.placement_data
@options.policies
@options.output_in(*out.FORMATS, _ANNOTATIONS, *place_formats.FORMATS)
@place_formats.options
@place_options.options
def command(
    paths: tuple[Path, ...],
    data_sources: tuple[str, ...],
    policies_folder: Path | None,
    output: str,
    argo_cd: place_formats.ArgoCd | None,
    execution: place_options.Execution,
) -> int:
    """Show on which clusters the workloads in manifests run, with which share of their replicas,
    and why not on the others. OPA decides, by the policies of this checkout and the data of a file;
    no cluster is contacted, except with --apply and --host.

    A FILE holds manifests, as JSON or YAML; - is standard input. Of a FOLDER, all .yaml, .yml and
    .json files are read, except hidden ones. Everything that runs pods is placed; all other objects
    are where the workloads of their namespace are. With -o annotations, all manifests are printed,
    with the decision as an annotation; those with errors are left out. With -o karmada or
    -o argocd, the objects are printed by which these carry out the decisions. With --watch,
    decisions follow changes until Ctrl-C.

    See docs/placement.md. Exit code: 0 if all objects have clusters, 1 if one has errors or could
    not be applied, 2 if a file has a mistake.
    """
    if execution.watched:
        return place_watch.run(
            paths, data_sources, execution, folder=policies_folder, output=output
        )
    if argo_cd:
        sources.require_patchable(paths)
    host = execution.host()
    with out.progress() as progress:
        inputs = (
            _in_host(host, execution, progress)
            if host
            else decisions.read(paths, data_sources, progress=progress)
        )
        result = decisions.decide(
            inputs,
            folder=policies_folder,
            moves_volumes=execution.moves_volumes,
            progress=progress,
        )
    place_reports.emit_notes(result)
    if host and execution.applied:
        return _apply(result, host)
    if output == _ANNOTATIONS:
        _emit_annotated(result)
    elif output in place_formats.FORMATS:
        place_formats.emit(result, argo_cd)
        place_reports.emit_errors(result)
    else:
        listed = [placement for placement in result.placements if _is_listed(placement)]
        out.emit([_data(placement) for placement in listed], output, _drawn(listed))
    return int(any(placement.errors for placement in result.placements))


def _emit_annotated(result: Result) -> None:
    """Print the manifests, and the errors of those that are left out."""
    manifests = [placement.annotated() for placement in result.placements if not placement.errors]
    out.line(yaml_texts.written(*manifests).rstrip())
    place_reports.emit_errors(result)


def _in_host(
    host: Host, execution: place_options.Execution, progress: Progress
) -> decisions.Inputs:
    """What the host cluster has now. Raises UsageError."""
    from fairlead.placement import host_inputs

    with host_inputs.followed(
        host, execution.selector, applies=execution.applied, progress=progress
    ) as inputs:
        return inputs.read(progress)


def _apply(result: Result, host: Host) -> int:
    """Apply Karmada's policies in the host cluster. Returns the exit code."""
    from fairlead.placement import karmada_apply

    place_reports.emit_errors(result)
    with out.progress() as progress:
        report = karmada_apply.keep(result, host, progress=progress)
    place_reports.emit(report)
    failed = any(placement.errors for placement in result.placements)
    return int(failed or bool(report.problems))


def _is_listed(placement: Placement) -> bool:
    """Whether people have to see where the object is. A namespace is where anything in it is."""
    return bool(placement.errors) or placement.document.value["kind"] != "Namespace"


def _data(placement: Placement) -> dict[str, Any]:
    manifest = placement.document.value
    metadata = manifest.get("metadata") or {}
    return {
        "file": str(yaml_files.shown(placement.document.path)),
        "line": placement.document.line(()),
        "kind": manifest["kind"],
        "namespace": placement.namespace or None,
        "name": metadata.get("name"),
        "clusters": {
            name: {
                "weight": weight,
                "replicas": placement.replicas.get(name),
                "cost": placement.cluster_costs.get(name),
            }
            for name, weight in placement.clusters.items()
        },
        "cost": placement.cost,
        "costs": dict(placement.costs),
        "annotations": placement.annotations,
        "errors": dict(placement.errors),
        "explanation": dict(placement.explanation),
        **({"notes": list(placement.notes)} if placement.notes else {}),
    }


def _drawn(placements: Sequence[Placement]) -> Any:
    workloads = [placement for placement in placements if not placement.follows]
    others = [placement for placement in placements if placement.follows]

    def draw(console: Console) -> None:
        for number, placement in enumerate(workloads):
            if number:
                console.print()
            lines = [
                {
                    "cluster": name,
                    "weight": placement.clusters.get(name),
                    "replicas": placement.replicas.get(name),
                    "cost": _money(placement.costs.get(name)),
                    "why": reason,
                }
                for name, reason in sorted(
                    placement.explanation.items(),
                    key=lambda item: (item[0] not in placement.clusters, item[0]),
                )
            ]
            out.rows(placement.title, _COLUMNS, lines)(console)
            if placement.cost is not None:
                console.print(f"cost: {_money(placement.cost)} an hour")
            _draw_errors(placement, console)
        if others:
            console.print()
            lines = [
                {
                    "object": placement.title,
                    "clusters": ", ".join(placement.targets) or None,
                    "why": _limits(placement),
                }
                for placement in others
            ]
            out.rows("Other objects", _COLUMNS_OF_OTHERS, lines)(console)
            for placement in others:
                _draw_errors(placement, console, f"{placement.title}: ")

    return draw


def _draw_errors(placement: Placement, console: Console, prefix: str = "") -> None:
    for text in placement.sentences:
        sentence = texts.printable(f"error: {prefix}{text}")
        console.print(sentence, style="red", soft_wrap=True)


def _limits(placement: Placement) -> str | None:
    """Why the object is not where a workload is that it belongs to."""
    if placement.errors:
        return None
    return (
        "; ".join(
            f"not {name}: {reason}"
            for name, reason in sorted(placement.explanation.items())
            if name not in placement.clusters and reason != ABSENT
        )
        or "with its workloads"
    )


def _money(cost: float | None) -> str | None:
    """A cost with four digits that count, such as 0.0858."""
    return None if cost is None else f"{cost:.4g}"

"""`fairlead place`: show on which clusters workloads run, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml
from rich.console import Console

from fairlead.analysis import place
from fairlead.analysis.place import Placement, Result
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import files

_ANNOTATIONS = "annotations"


@click.command()
@options.manifests_by_flag
@options.placement_data
@options.policies
@options.output_in(*out.FORMATS, _ANNOTATIONS)
def command(
    paths: tuple[Path, ...], data_file: Path, policies_folder: Path | None, output: str
) -> int:
    """Show on which clusters the workloads in manifests run, with which share of their replicas,
    and why not on the others. OPA decides, by the policies of this checkout and the data of a file;
    no cluster is contacted.

    A FILE holds manifests, as JSON or YAML; - is standard input. Of a FOLDER, all .yaml, .yml and
    .json files are read, except hidden ones. Deployments, ReplicaSets, StatefulSets and Jobs are
    placed. With -o annotations, all manifests are printed, with the decision as an annotation;
    workloads with errors are left out.

    See docs/placement.md. Exit code: 0 if all workloads have clusters, 1 if one has errors, 2 if a
    file has a mistake.
    """
    with out.progress() as progress:
        result = place.place(paths, data_file, folder=policies_folder, progress=progress)
    if output == _ANNOTATIONS:
        _emit_annotated(result)
    else:
        out.emit([_data(placement) for placement in result.placements], output, _drawn(result))
    return int(any(placement.errors for placement in result.placements))


def _emit_annotated(result: Result) -> None:
    """Print the manifests, and the errors of those that are left out."""
    manifests = [
        placement.annotated() if placement else document.value
        for document, placement in result.documents
        if not (placement and placement.errors)
    ]
    out.line(yaml.safe_dump_all(manifests, sort_keys=False, allow_unicode=True).rstrip())
    for placement in result.placements:
        for text in placement.sentences:
            out.error(f"{placement.title}: {text}")


def _data(placement: Placement) -> dict[str, Any]:
    manifest = placement.document.value
    metadata = manifest.get("metadata") or {}
    return {
        "file": str(files.shown(placement.document.path)),
        "line": placement.document.line(()),
        "kind": manifest["kind"],
        "namespace": place.namespace_of(metadata),
        "name": metadata.get("name"),
        "clusters": {
            name: {"weight": weight, "replicas": placement.replicas[name]}
            for name, weight in placement.clusters.items()
        },
        "annotations": placement.annotations,
        "errors": dict(placement.errors),
        "explanation": dict(placement.explanation),
    }


def _drawn(result: Result) -> Any:
    def draw(console: Console) -> None:
        for number, placement in enumerate(result.placements):
            if number:
                console.print()
            lines = [
                {
                    "cluster": name,
                    "weight": placement.clusters.get(name),
                    "replicas": placement.replicas.get(name),
                    "why": why,
                }
                for name, why in sorted(
                    placement.explanation.items(),
                    key=lambda item: (item[0] not in placement.clusters, item[0]),
                )
            ]
            out.rows(placement.title, ("cluster", "weight", "replicas", "why"), lines)(console)
            for text in placement.sentences:
                console.print(f"error: {text}", style="red", soft_wrap=True)

    return draw

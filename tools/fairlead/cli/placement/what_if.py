"""`fairlead what-if`: shows decisions now and after a change of clusters, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import yaml_files
from fairlead.placement import what_if
from fairlead.placement.placements import Placement
from fairlead.placement.what_if import Changes, Comparison


@click.command()
@options.manifests_by_flag
@click.option(
    "--cluster",
    "clusters",
    metavar="NAME",
    multiple=True,
    help="The cluster that loses certifications; repeatable.",
)
@click.option(
    "--without",
    "certifications",
    metavar="CERTIFICATION",
    multiple=True,
    help="A certification that it loses, such as pci; repeatable.",
)
@click.option(
    "--price",
    "prices",
    metavar="CLUSTER[/RESOURCE]=NUMBER",
    multiple=True,
    help="Another price, by default of cpu (per core hour); repeatable.",
)
@options.placement_data
@click.option("--all", "everything", is_flag=True, help="Show also what does not change.")
@options.policies
@options.output
def command(
    paths: tuple[Path, ...],
    clusters: tuple[str, ...],
    certifications: tuple[str, ...],
    prices: tuple[str, ...],
    data_sources: tuple[str, ...],
    everything: bool,
    policies_folder: Path | None,
    output: str,
) -> int:
    """Show where the workloads in manifests run now, and where they would run if a cluster lost a
    certification or had another price. OPA decides, as in `fairlead place`; no cluster is
    contacted.

    See docs/visibility.md. Exit code: 0 if all workloads have clusters after the change, 1 if one
    has errors, 2 if a file or the change has a mistake.
    """
    changes = Changes.parse(clusters, certifications, prices)
    with out.progress() as progress:
        comparisons = what_if.compare(
            paths, data_sources, changes, folder=policies_folder, progress=progress
        )
    listing = [change for change in comparisons if change.changed or everything]
    out.emit(
        [_data(change) for change in listing],
        output,
        lambda console: _draw(listing, console),
    )
    if output == "table":
        changed = sum(change.changed for change in comparisons)
        out.note(f"{changed} of {len(comparisons)} workloads change")
    return int(any(change.then.errors for change in comparisons))


def _data(comparison: Comparison) -> dict[str, Any]:
    document = comparison.now.document
    costs = comparison.costs or (None, None)
    return {
        "file": str(yaml_files.shown(document.path)),
        "line": document.line(()),
        "kind": document.value["kind"],
        "namespace": comparison.now.namespace,
        "name": (document.value.get("metadata") or {}).get("name"),
        "changed": comparison.changed,
        **{
            moment: {
                "clusters": {
                    name: {"weight": weight, "replicas": placement.replicas[name]}
                    for name, weight in placement.clusters.items()
                },
                "errors": dict(placement.errors),
                **({"cost": cost} if comparison.costs else {}),
            }
            for moment, placement, cost in (
                ("now", comparison.now, costs[0]),
                ("then", comparison.then, costs[1]),
            )
        },
    }


def _draw(comparisons: Sequence[Comparison], console: Console) -> None:
    if not comparisons:
        return
    priced = any(change.costs for change in comparisons)
    costs = ("costNow", "costThen") if priced else ()
    failing = any(change.then.errors for change in comparisons)
    columns = ("workload", "now", "then", *costs, *(("errors",) if failing else ()))
    lines = [
        {
            "workload": change.now.title,
            "now": _shares(change.now),
            "then": _shares(change.then),
            **dict(zip(costs, change.costs or (None, None), strict=False)),
            "errors": "; ".join(change.then.sentences),
        }
        for change in comparisons
    ]
    out.rows(None, columns, lines)(console)


def _shares(placement: Placement) -> str:
    """The clusters with their replicas, such as `eu-frankfurt: 3, us-dallas: 2`."""
    shares = ", ".join(f"{name}: {number}" for name, number in placement.replicas.items())
    return shares or "no cluster"

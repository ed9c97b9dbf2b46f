"""`python -m lab scale`: fill one cluster with 10,000 namespaces, 1,000 nodes and 20,000 pods. It
writes bench/scale.json and the picture bench/scale.svg and .png.

The scheduler, the webhooks, OPA and its sidecar are the real ones; the nodes are kwok's.
Half-way, OPA and its sidecar are killed and get everything anew, while pods go on being created.
The figures are not tests, as a busy machine has worse ones. The exit code is 1 if a pod is not
placed where its namespace's pool says.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from fairlead.cli import output
from fairlead.common import atomic_files, paths
from fairlead.common.errors import FairleadError
from lab.bench import circumstances, pictures
from lab.scale import picture, report
from lab.scale.plan import POOLS, Size
from lab.scale.run import run

RESULTS = "scale.json"


@click.command()
@click.option("--namespaces", type=click.IntRange(1), default=10_000, show_default=True)
@click.option(
    "--nodes",
    type=click.IntRange(len(POOLS), 2_000),
    default=1_000,
    show_default=True,
    help="In five pools.",
)
@click.option("--pods", type=click.IntRange(2), default=20_000, show_default=True)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Draws the pool of each namespace, and the order of the pods.",
)
@click.option(
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for scale.json, scale.svg and scale.png.  [default: bench]",
)
def command(namespaces: int, nodes: int, pods: int, seed: int, folder: Path | None) -> None:
    """Fill a cluster with namespaces, nodes and pods, and check where each pod runs.

    Writes memory and latency over time as scale.json, with a picture. A run that is interrupted
    writes nothing.
    """
    size = Size(namespaces, nodes, pods, seed)
    begun = circumstances.now()
    with output.progress() as progress:
        result = run(size, progress)
    summary = report.summary(result)
    document = {
        "run": {**begun, "load": circumstances.now()["load"], **dataclasses.asdict(size)},
        "summary": summary,
        "series": result.series,
    }
    drawn = picture.picture(document)
    target = (folder or paths.root() / "bench") / RESULTS
    atomic_files.write_all(
        {
            target: report.text(document),
            target.with_suffix(".svg"): pictures.svg(drawn),
            target.with_suffix(".png"): pictures.png(drawn),
        }
    )
    output.rows(None, ("server", "peak", "processor"), report.servers(summary))(output.console())
    if complaint := result.complaint():
        raise FairleadError(f"{complaint}: see {target}")
    output.line(f"all {pods} pods run on nodes of their pools: {target}")

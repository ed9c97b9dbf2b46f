"""`python -m lab demo-access`: what `fairlead access demo` shows."""

from __future__ import annotations

import click
from rich.console import Console

from fairlead.access import requests
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.operations import access
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.operations import up
from fairlead.settings.access import Access
from fairlead.settings.models import Settings
from lab.demos import access as demo_access


@click.command()
@options.own_cluster("demo-access")
@options.output
def command(name: str, output: str) -> None:
    """See a grant of 20 s in a new cluster, from its request to its end: what its subject may do at
    each second.
    """
    settings = Settings(access=Access(roles=[demo_access.ROLE]))
    with out.progress() as progress:
        EmbeddedCluster(name).down()
        with up.started(name, settings, {"pool1": 1}, progress=progress) as cluster:
            rows = demo_access.run(cluster, progress=progress)
            history = requests.history(cluster.objects())

    def draw(console: Console) -> None:
        cells = [
            {
                "second": f"{row['second']:+d}",
                "listPods": "200 OK" if row["allowed"] else "403 Forbidden",
                "left": access.left(row["left"]),
                "status": row["why"],
            }
            for row in rows
        ]
        styles = {"listPods": "bold"}
        title = f"What {demo_access.SUBJECT} may do, by seconds from the beginning of the window"
        out.rows(title, ("second", "listPods", "left", "status"), cells, styles)(console)
        console.print()
        events = [{**line, "time": access.local(line["time"])} for line in history]
        out.rows("History", ("time", "event", "message"), events)(console)

    out.emit({"seconds": rows, "history": history}, output, draw)
    demo_access.check(rows)

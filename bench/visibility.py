"""Measures how long OPA takes to answer the queries of `fairlead query` about thousands of
deployments (`opa bench`, with the garbage collection of a deployed OPA and without the time to load
the objects), and how long a whole `fairlead what-if` takes; writes bench/visibility.json and prints
it.

These are figures, not tests: a busy machine has worse ones, and the least time (`min`) then says
more than the median. The number of allocations is the same on every machine. `look_ups` compares
with the bare look-up of bench/peers, measured beside it. A query should take less than 300 ms
with 10,000 deployments or pods, and what-if less than 20 s with 2,000 applications.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import placement

from fairlead.analysis import what_if
from fairlead.analysis.what_if import Changes
from fairlead.cli import output
from fairlead.common import paths
from fairlead.common.progress import Progress
from lab import placement_cost

RESULTS = "bench/visibility.json"
CLUSTERS = 20
CUSTOMERS = 200
JURISDICTIONS = 3
POOLS = 4
NODES = 100
LOST = "iso27001"
"""All clusters have this certification, and all customers require it."""


def deployments(number: int, seed: int) -> list[dict[str, Any]]:
    """Deployments of all customers in turn, each with a namespace of its own. A third of them name
    it by an annotation, a third by a label, and the others by the namespace.
    """
    choose = random.Random(seed)  # noqa: S311 - no secret
    template = placement_cost.asked()["resource"]

    def deployment(index: int) -> dict[str, Any]:
        customer = f"customer-{index % CUSTOMERS}"
        field = choose.choice(("annotations", "labels", None))
        return {
            **template,
            "metadata": {
                "name": f"app-{index}",
                "namespace": customer,
                "labels": {"app": f"app-{index}"},
                **({field: {"customer": customer, "criticality": "low"}} if field else {}),
            },
        }

    return [deployment(index) for index in range(number)]


def namespaces() -> dict[str, Any]:
    """The namespaces of all customers, by name."""
    names = [f"customer-{number}" for number in range(CUSTOMERS)]
    return {name: {"metadata": {"name": name, "labels": {"customer": name}}} for name in names}


def inventory(number: int, seed: int) -> dict[str, Any]:
    """OPA's `data.inventory` with so many deployments, divided among the clusters."""
    described = namespaces()
    trees: dict[str, Any] = {
        f"cluster-{index:03}": {"namespaces": described, "deployments": {}}
        for index in range(CLUSTERS)
    }
    for index, deployment in enumerate(deployments(number, seed)):
        metadata = deployment["metadata"]
        # Of each customer some in every cluster.
        tree = trees[f"cluster-{(index // CUSTOMERS) % CLUSTERS:03}"]["deployments"]
        tree.setdefault(metadata["namespace"], {})[metadata["name"]] = deployment
    return trees


def nodes_and_pods(number: int, seed: int) -> dict[str, Any]:
    """OPA's `data.inventory` with so many pods in the namespaces of all customers, each of which
    has one of four pools. One pod of thirty runs on a node of another pool.
    """
    choose = random.Random(seed)  # noqa: S311 - no secret
    pools = {
        name: {"metadata": {"labels": {"agentpool": f"pool-{index % POOLS}"}}}
        for index, name in enumerate(namespaces())
    }
    nodes = {
        f"node-{index}": {"metadata": {"labels": {"agentpool": f"pool-{index % POOLS}"}}}
        for index in range(NODES)
    }
    trees: dict[str, Any] = {
        f"cluster-{index:03}": {"namespaces": pools, "nodes": nodes, "pods": {}}
        for index in range(CLUSTERS)
    }
    for index in range(number):
        customer = index % CUSTOMERS
        astray = choose.random() < 1 / 30
        node = choose.randrange(NODES // POOLS) * POOLS + (customer + astray) % POOLS
        tree = trees[f"cluster-{(index // CUSTOMERS) % CLUSTERS:03}"]["pods"]
        tree.setdefault(f"customer-{customer}", {})[f"pod-{index}"] = {
            "spec": {"nodeName": f"node-{node}"},
            "status": {"phase": "Running"},
        }
    return trees


def queried(number: int, seed: int) -> list[dict[str, Any]]:
    """The times of queries in milliseconds."""
    world = placement_cost.world(CLUSTERS, CUSTOMERS, JURISDICTIONS, seed)
    deployed = {**world, "inventory": inventory(number, seed)}
    running = {"inventory": nodes_and_pods(number, seed)}
    jurisdiction = world["placement"]["clusters"]["cluster-000"]["jurisdiction"]
    customer = {"customer": "customer-7", "jurisdiction": jurisdiction}
    lost = {"cluster": "cluster-000", "certification": LOST}
    return [
        {
            "what": name.replace("_", "-"),
            "objects": number,
            **placement.columns(
                partial(placement_cost.measured, data, f"data.visibility.{name}.rows", question)
            ),
        }
        for name, question, data in (
            ("applications_in_jurisdiction", customer, deployed),
            ("customers_affected", lost, deployed),
            ("pods_outside_pool", {}, running),
        )
    ]


def compared(number: int, seed: int) -> dict[str, Any]:
    """The time of one `fairlead what-if` in milliseconds, from its files to its result."""
    described = [
        {"apiVersion": "v1", "kind": "Namespace", **namespace}
        for namespace in namespaces().values()
    ]
    items = [*described, *deployments(number, seed)]
    with tempfile.TemporaryDirectory() as name:
        manifests, data = Path(name, "manifests.json"), Path(name, "data.json")
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        data.write_text(json.dumps(placement_cost.world(CLUSTERS, CUSTOMERS, JURISDICTIONS, seed)))
        began = time.monotonic()
        changes = Changes({"cluster-000": [LOST]}, {})
        comparisons = what_if.compare([manifests], [str(data)], changes, progress=Progress())
        taken = time.monotonic() - began
    if not any(each.changed for each in comparisons):
        raise click.ClickException("the change changes nothing: choose another --seed")
    return {"what": "what-if", "objects": number, "min": round(taken * 1000)}


@click.command()
@click.option("--objects", "number", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--applications", type=click.IntRange(1), default=2_000, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(number: int, applications: int, seed: int) -> None:
    """Measure how long queries and what-if take; write bench/visibility.json."""
    rows = [*queried(number, seed), compared(applications, seed)]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, ("what", "objects", "min", "p50", "p99", "allocations", "look_ups"), rows)(
        output.console()
    )


if __name__ == "__main__":
    main()

"""Measures how long OPA takes to decide on which clusters a workload runs, by `opa bench`; writes
bench/placement.json and prints it.

These are figures, not tests: a busy machine has worse ones, and the least time (`min`) then says
more than the median. A decision with 500 clusters should take less than 5 ms, with any number of
customers. It adds up the cost of what the workload requests and sends.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click

from fairlead.cli import output
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.policy import bundles
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

RESULTS = "bench/placement.json"
JURISDICTIONS = ("br", "de", "fr", "in", "jp", "sg", "uk", "us-ca", "us-tx", "za")
CERTIFICATIONS = ("hipaa", "iso27001", "mas-trm", "pci", "soc2")
CORES = (64, 128, 200, 320, 400, 800, 1200, 2000)
_TIMER = "histogram_timer_rego_query_eval_ns_"


def world(clusters: int, customers: int, jurisdictions: int, seed: int) -> dict[str, Any]:
    """OPA's data. Each customer may use so many jurisdictions, and requires iso27001."""
    choose = random.Random(seed)  # noqa: S311 - no secret

    def cluster(number: int) -> dict[str, Any]:
        cores = choose.choice(CORES)
        others = choose.sample(CERTIFICATIONS, choose.randint(0, 3))
        return {
            "region": f"region-{number % 40}",
            "jurisdiction": choose.choice(JURISDICTIONS),
            "location": choose.choice(("on-prem", "public")),
            "certifications": sorted({"iso27001", *others}),
            "cordoned": choose.random() < 0.02,
            "price": {
                "cpu": round(choose.uniform(0.01, 0.05), 4),
                "memory": round(choose.uniform(0.001, 0.006), 4),
            },
            "capacity": {"cpu": str(cores), "memory": f"{cores * 4}Gi"},
        }

    def customer() -> dict[str, Any]:
        allowed = sorted(choose.sample(JURISDICTIONS, jurisdictions))
        return {"jurisdictions": allowed, "certifications": ["iso27001"]}

    names = [f"cluster-{number:03}" for number in range(clusters)]
    near = names[:2]
    return {
        "placement": {
            "clusters": {name: cluster(number) for number, name in enumerate(names)},
            "customers": {f"customer-{number}": customer() for number in range(customers)},
            "applications": {"shop/db": {"clusters": near}},
            "transfer": {
                name: {to: round(choose.uniform(0.01, 0.1), 2) for to in near} for name in names
            },
        }
    }


def asked() -> dict[str, Any]:
    """What OPA is asked: a Deployment of six replicas that may run in public clouds, too, has to
    run on two clusters, and sends data to an application.
    """
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    return {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "web",
                "annotations": {
                    "customer": "customer-7",
                    "criticality": "low",
                    "min-clusters": "2",
                    "traffic": '{"applications": {"shop/db": 0.1}}',
                },
            },
            "spec": {
                "replicas": 6,
                "template": {"spec": {"containers": [{"name": "web", "resources": requests}]}},
            },
        }
    }


def measured(data: dict[str, Any], opa: str, query: str, question: Any) -> dict[str, Any]:
    """How long OPA takes to answer a query with this input, in milliseconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, text in bundles.bundle(Settings(placement=True), queries=True).modules.items():
            (folder / key).write_text(text)
        (folder / "data.json").write_text(json.dumps(data))
        (folder / "input").write_text(json.dumps(question))
        command = [opa, "bench", "--format=json", f"--data={folder}", f"--input={folder / 'input'}"]
        printed = subprocess.check_output([*command, query], text=True)
    extra = json.loads(printed)["Extra"]
    return {
        column: round(extra[_TIMER + name] / 1e6, 2)
        for column, name in (("min", "min"), ("p50", "median"), ("p99", "99%"))
    }


@click.command()
@click.option("--clusters", type=click.IntRange(1), default=500, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(clusters: int, seed: int) -> None:
    """Measure how long a decision about clusters takes; write bench/placement.json."""
    opa = str(toolchain.ensure(["opa"], Progress())["opa"])
    rows = [
        {
            "clusters": clusters,
            "customers": customers,
            "jurisdictions": f"{jurisdictions} of {len(JURISDICTIONS)}",
            **measured(
                world(clusters, customers, jurisdictions, seed), opa, "data.k8s.placement", asked()
            ),
        }
        for jurisdictions in (3, len(JURISDICTIONS))
        for customers in (20, 2000)
    ]
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

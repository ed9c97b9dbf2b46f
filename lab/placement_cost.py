"""Measures what OPA's decision about the clusters of a workload costs, with generated data."""

from __future__ import annotations

import random
from typing import Any

from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab import benchmarks
from lab.benchmarks import Measurement

JURISDICTIONS = ("br", "de", "fr", "in", "jp", "sg", "uk", "us-ca", "us-tx", "za")
CERTIFICATIONS = ("hipaa", "iso27001", "mas-trm", "pci", "soc2")
CORES = (64, 128, 200, 320, 400, 800, 1200, 2000)


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


def decision(clusters: int, customers: int, jurisdictions: int, seed: int = 1) -> Measurement:
    """What the decision about `asked` costs; see `world`. Raises FairleadError if OPA fails."""
    modules = PolicySet.load(Settings(placement=True)).modules
    data = world(clusters, customers, jurisdictions, seed)
    return benchmarks.measured("data.k8s.placement", modules=modules, data=data, input=asked())

"""`fairlead place --host -o karmada --apply --watch`: Karmada's policies in a host cluster follow
its workloads and its ConfigMap. The schema has the fields that Fairlead writes, and no others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import placed
import pytest
from waits import until

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common import paths
from fairlead.deployment.names import NAMESPACE
from fairlead.kube.errors import Refused
from fairlead.placement import karmada
from fairlead.placement.hosts import FIELD_MANAGER

PROFILES = ["bare"]
pytestmark = pytest.mark.embedded("it brings definitions of others")
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "registry.example.com/shop:1"}]},
}
SCHEMA = paths.root() / "tools" / "schemas" / "karmada_policy.json"
# What structural schemas do not have, or API servers do themselves.
_LEFT_OUT = {"additionalProperties", "uniqueItems", "const"}


def structural(schema: Any) -> Any:
    """A JSON schema as a CustomResourceDefinition can have it."""
    kept = {key: value for key, value in schema.items() if key not in _LEFT_OUT}
    if "const" in schema:
        const = schema["const"]
        kept |= {"enum": [const], "type": "boolean" if isinstance(const, bool) else "string"}
    if "properties" in schema:
        kept["properties"] = {name: structural(part) for name, part in schema["properties"].items()}
    if "items" in schema:
        kept["items"] = structural(schema["items"])
    return kept


def definitions() -> Iterator[dict[str, Any]]:
    """The CustomResourceDefinitions of the two kinds, from the committed schema."""
    group, version = karmada.API_VERSION.split("/")
    for schema in json.loads(SCHEMA.read_text())["oneOf"]:
        kind = schema["properties"]["kind"]["const"]
        plural = f"{kind.lower()[:-1]}ies"
        spec = structural(schema["properties"]["spec"])
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster" if kind.startswith("Cluster") else "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": spec},
                                "required": ["spec"],
                            }
                        },
                    }
                ],
            },
        }


class Host:
    """The host cluster, with the kinds of Karmada's policies."""

    def __init__(self, cluster: BareCluster, namespace: str, log: Path) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.objects = cluster.objects()
        self.log = log
        self.apply("v1", "Namespace", NAMESPACE)
        self.apply("v1", "Namespace", namespace)
        for definition in definitions():
            self.objects.apply(definition)
        until(self._is_served, what="the policies' kinds are served")

    def _is_served(self) -> bool:
        self.objects = self.cluster.objects()
        return self.policies() is not None

    def apply(self, version: str, kind: str, name: str, **parts: Any) -> None:
        namespace = parts.pop("namespace", self.namespace)
        placed_in = {} if kind == "Namespace" else {"namespace": namespace}
        metadata = {"name": name, **placed_in, **parts.pop("metadata", {})}
        manifest = {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}
        self.objects.apply(manifest)

    def deployment(self, name: str, **labels: str) -> None:
        """A Deployment that carries these labels."""
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
        self.apply("apps/v1", "Deployment", name, spec=spec, metadata={"labels": labels})

    def data(self, *names: str) -> None:
        """Data with these clusters, all alike."""
        cluster = {"jurisdiction": "eu", "location": "on-prem", "certifications": []}
        customers = {"northwind": {"jurisdictions": ["eu"], "certifications": []}}
        texts = {"clusters": json.dumps(dict.fromkeys(names, cluster))}
        texts["customers"] = json.dumps(customers)
        self.apply("v1", "ConfigMap", "placement", data=texts, namespace=NAMESPACE)

    def policies(self) -> dict[str, list[str]]:
        """The clusters of each PropagationPolicy, by its name."""
        live = self.objects.list(karmada.API_VERSION, "PropagationPolicy", self.namespace)
        return {
            each["metadata"]["name"]: each["spec"]["placement"]["clusterAffinity"]["clusterNames"]
            for each in live
        }

    def until_policies(self, wanted: dict[str, list[str]]) -> None:
        until(lambda: self.policies() == wanted, what=f"the policies are {wanted}")

    @contextmanager
    def watching(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """The command, as users have it; it ends with the block."""
        arguments = [f"--host=fairlead-{self.cluster.name}", "-o", "karmada", *options]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "fairlead", "place", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig)},
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()


@pytest.fixture
def host(cluster: BareCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    namespace = f"karmada-{request.session.items.index(request.node)}"
    host = Host(cluster, namespace, tmp_path / "log")
    yield host
    host.objects.delete("v1", "ConfigMap", "placement", NAMESPACE)
    for deployment in host.objects.list("apps/v1", "Deployment", namespace):
        # At once, which its namespace is not; the next test would see it.
        host.objects.delete("apps/v1", "Deployment", deployment["metadata"]["name"], namespace)
    host.objects.delete("v1", "Namespace", namespace)


def test_policies_follow_the_workloads_and_the_data(host: Host) -> None:
    host.data("eu")
    host.deployment("web", customer="northwind")
    host.deployment("other")
    theirs = karmada.policies(
        [placed.placement({"us": 1}, name="theirs", namespace=host.namespace)]
    )[0]
    host.objects.apply(theirs)  # by another field manager
    kept = {"theirs-deployment": ["us"]}
    with host.watching("--watch", "--apply") as process:
        host.until_policies({**kept, "web-deployment": ["eu"]})
        host.data("eu", "us")
        host.until_policies({**kept, "web-deployment": ["eu", "us"]})
        host.deployment("second", customer="northwind")
        both = {"second-deployment": ["eu", "us"], "web-deployment": ["eu", "us"]}
        host.until_policies({**kept, **both})

        # Nobody can be placed: what was decided before stays in force.
        host.deployment("third", customer="nobody")
        until(lambda: "nobody" in host.log.read_text(), what="the error is told")
        assert host.policies() == {**kept, **both}

        # What somebody removed is there again; what went is removed.
        host.objects.delete(
            karmada.API_VERSION, "PropagationPolicy", "web-deployment", host.namespace
        )
        host.until_policies({**kept, **both})
        host.objects.delete("apps/v1", "Deployment", "second", host.namespace)
        host.until_policies({**kept, "web-deployment": ["eu", "us"]})
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, host.log.read_text()
    live = host.objects.get(
        karmada.API_VERSION, "PropagationPolicy", "theirs-deployment", host.namespace
    )
    assert live
    assert FIELD_MANAGER not in [each["manager"] for each in live["metadata"]["managedFields"]]
    assert "Traceback" not in host.log.read_text()

    with pytest.raises(Refused, match="unknownField"):
        host.objects.apply({**theirs, "spec": {**theirs["spec"], "unknownField": 1}})


def test_without_data_or_workloads_nothing_is_removed(host: Host) -> None:
    host.data("eu")
    host.deployment("web", customer="northwind")
    with host.watching("--apply") as process:
        assert process.wait(120) == 0, host.log.read_text()
    assert host.policies() == {"web-deployment": ["eu"]}
    with host.watching("--apply", "--selector=custmer") as process:
        assert process.wait(120) == 1
    assert "no workload matches the selector" in host.log.read_text()
    host.objects.delete("v1", "ConfigMap", "placement", NAMESPACE)
    with host.watching("--apply") as process:
        assert process.wait(120) == 2
    assert "ConfigMap fairlead/placement: is not there" in host.log.read_text()
    assert host.policies() == {"web-deployment": ["eu"]}

"""The sample for Kyverno in Kyverno's own command-line program: what that says of each object, and
that the intent beside the sample says the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import left_out
import samples
import yaml

from fairlead import verification
from fairlead.programs import toolchain

SAMPLE = "replicas-kyverno"
PROGRAM = "kubectl-kyverno"

pytestmark = left_out.unless_built(PROGRAM)


def results(folder: Path, labels: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The result and the message of `kyverno apply` for each object of the sample, by kind and
    name. The namespace has these labels.
    """
    (namespace,) = samples.manifests(f"{SAMPLE}/namespace.yaml")
    name = namespace["metadata"]["name"]
    values = {
        "apiVersion": "cli.kyverno.io/v1alpha1",
        "kind": "Values",
        "metadata": {"name": "values"},
        "namespaceSelector": [{"name": name, "labels": labels}],
    }
    objects = [_as_stored(case.request.manifest, name) for case in samples.both(SAMPLE)]
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    program = toolchain.ensure([PROGRAM])[PROGRAM]
    policy = samples.FOLDER / SAMPLE / "policy.yaml"
    resources = ("--resource", "objects.yaml", "--values-file", "values.yaml")
    completed = subprocess.run(
        [program, "apply", policy, *resources, "--policy-report", "--output-format", "json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    _, begin, report = completed.stdout.partition("{")  # after a warning about the policy's kind
    found = json.loads(begin + report)["results"] if begin else []
    failed = any(each["result"] == "fail" for each in found)
    assert completed.returncode == (1 if failed else 0), completed.stderr
    return {
        f"{resource['kind']} {resource['name']}": (each["result"], each["message"])
        for each in found
        for resource in each["resources"]
    }


def _as_stored(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The object as an API server fills it in: without a number, there is one replica."""
    metadata = {**manifest["metadata"], "namespace": namespace}
    return {**manifest, "metadata": metadata, "spec": {"replicas": 1, **manifest["spec"]}}


def test_kyverno_and_the_intent_refuse_the_same_objects(tmp_path: Path) -> None:
    cases = samples.both(SAMPLE)
    said = results(tmp_path, {"stage": "production"})
    assert said.keys() == {samples.title(case.request.manifest) for case in cases}
    refused = {title for title, (result, _) in said.items() if result == "fail"}
    assert {result for title, (result, _) in said.items() if title not in refused} == {"pass"}
    assert refused == {samples.title(c.request.manifest) for c in cases if not c.expect.allowed}
    assert "More than 2 replicas are needed in production." in said["Deployment two"][1]
    for engine in verification.load(["opa", "python"]):
        decided = samples.decisions(engine, cases)
        denied = {samples.title(c.request.manifest) for c in cases if not decided[c.name].allowed}
        assert denied == refused


def test_kyverno_leaves_other_namespaces_alone(tmp_path: Path) -> None:
    assert results(tmp_path, {"stage": "test"}) == {}

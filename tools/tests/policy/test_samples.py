"""The samples of the policies, as `fairlead eval` decides on them with the real OPA."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.cli.decisions.eval import command
from fairlead.common import paths
from fairlead.programs import toolchain

NAMESPACES = {
    "image_sources": "stage=production",
    "replica_limits": "stage=production",
    "required_labels": "stage=production",
    "resource_limits": "stage=production",
    "run_as_user": "stage=production",
    "sidecar_injection": "mesh=enabled",
}
"""The labels of the samples' namespaces, by the policy's folder."""


def _eval(policy: str, file: str) -> dict[str, Any]:
    samples = paths.root() / "policies" / policy / "samples"
    arguments = [
        str(samples / file),
        f"--settings={samples / 'fairlead.yaml'}",
        f"--namespace-labels={NAMESPACES[policy]}",
        "--fail-on=refused",
        "--output=json",
    ]
    report: dict[str, Any] = json.loads(CliRunner().invoke(command, arguments).stdout)
    return report


@pytest.mark.parametrize("policy", NAMESPACES)
def test_the_allowed_samples_are_admitted(policy: str) -> None:
    report = _eval(policy, "allowed/objects.yaml")
    assert report["objects"]
    assert {each["outcome"] for each in report["objects"]} <= {"admitted", "changed"}


@pytest.mark.parametrize("policy", NAMESPACES)
def test_each_of_the_refused_samples_is_refused(policy: str) -> None:
    report = _eval(policy, "refused/objects.yaml")
    assert {each["outcome"] for each in report["objects"]} == {"refused"}


def test_the_sample_of_a_sidecar_is_injected_before_other_init_containers() -> None:
    volumes, sidecar = _eval("sidecar_injection", "allowed/objects.yaml")["objects"][0]["patch"]
    assert (volumes["path"], sidecar["path"]) == ("/spec/volumes", "/spec/initContainers/0")
    assert sidecar["value"]["name"] == "mesh-proxy"
    assert sidecar["value"]["restartPolicy"] == "Always"


def test_opa_reads_the_folder_of_policies_as_the_readme_says() -> None:
    """OPA takes YAML in a folder for data: two files with one key, or two lists, do not merge."""
    opa = toolchain.ensure(["opa"])["opa"]
    done = subprocess.run(
        [opa, "test", "policies"], cwd=paths.root(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

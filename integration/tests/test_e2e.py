"""The logs and events that are collected when a test fails, and the command that runs these
tests."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairlead.clusters.base import Cluster
from fairlead.common import paths
from fairlead.kube import clients
from lab import diagnostics


def test_all_that_tells_what_happened_is_kept_and_no_secret(
    cluster: Cluster, objects: clients.Objects, token: str, tmp_path: Path
) -> None:
    objects.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "e-", "namespace": "default"},
        }
        | {"involvedObject": {"namespace": "default"}, "message": "it happened"}
    )
    written = diagnostics.collect(cluster, tmp_path / "logs")
    assert {
        "status.json",
        "events.json",
        "Pod.json",
        "Deployment.json",
        "fairlead-policies.json",
    } <= {path.name for path in written}
    assert "errors.txt" not in {path.name for path in written}
    assert "it happened" in {
        event.get("message") for event in json.loads((tmp_path / "logs/events.json").read_text())
    }
    assert any(path.suffix == ".log" and path.stat().st_size for path in written)
    assert not [path.name for path in written if token in path.read_text(encoding="utf-8")]


@pytest.mark.lab
@pytest.mark.embedded("it runs the command on an embedded cluster")
@pytest.mark.parametrize(
    ("chosen", "code"), [("test_e2e", 0), ("test_e2e and not test_e2e", 1)], ids=["some", "none"]
)
def test_the_command_ends_as_the_tests_do(chosen: str, code: int) -> None:
    argv = [sys.executable, "-m", "lab", "e2e", "--collect-only", "-q", "-k", chosen]
    done = subprocess.run(
        argv, cwd=paths.root(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == code, done.stderr
    last = done.stderr.rstrip().splitlines()[-1]
    assert re.fullmatch(rf"tests: {'failed' if code else 'passed'} \(\d+\.\d s\)", last)

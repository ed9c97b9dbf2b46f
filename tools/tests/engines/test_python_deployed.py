"""The policies that `fairlead serve --deployed` follows, and what its workers report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import fake_apiserver
import pytest
from click.testing import CliRunner
from fake_apiserver import FakeApiServer

from fairlead.cli.processes.serve import command
from fairlead.common import waiting
from fairlead.deployment import manifests
from fairlead.deployment.names import ENGINE_ANNOTATION, NAMESPACE, POLICIES
from fairlead.engines.python.serving.deployed import Deployed
from fairlead.engines.python.serving.reports import Reports
from fairlead.kube import admission_reviews
from fairlead.policy import bundles, python_code
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

KEY = ("configmaps", NAMESPACE, POLICIES)
CODE = "node_pool.engines.python.py"


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    with fake_apiserver.running() as running:
        yield running


@pytest.fixture
def deployed(api: FakeApiServer, tmp_path: Path) -> Iterator[Deployed]:
    stop = Event()
    follower = Deployed(api.kubeconfig(tmp_path), lambda: None)
    follower.start(stop)
    yield follower
    stop.set()


def config_map(settings: Settings, **changed: str) -> dict[str, Any]:
    """The policies' ConfigMap, with other texts for these keys."""
    policies = PolicySet.load(settings)
    code = python_code.read(policies.active)
    bundle = Bundle({**policies.modules, **code, **changed})
    return manifests.config_map(policies.with_bundle(bundle), "python")


def put(api: FakeApiServer, manifest: dict[str, Any]) -> str:
    """Store the ConfigMap; returns its revision."""
    with api.changed:
        api.objects.pop(KEY, None)
        api._store(KEY, json.loads(json.dumps(manifest)), None)
    return bundles.revision(manifest["data"])


def until(condition: Any) -> None:
    waiting.until(condition, deadline=60, what="the change is followed")


def refusal(deployed: Deployed) -> str:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"nodeName": "n1"},
    }
    assert deployed.policies
    review = admission_reviews.build(manifest, namespace="payments")
    answer = deployed.policies.answer(review, {"agentpool": "pool1"})
    return str(answer["response"]["status"]["message"])


def test_it_follows_settings_and_code(api: FakeApiServer, deployed: Deployed) -> None:
    until(deployed.read.is_set)
    assert deployed.trouble == f"no policies: none in ConfigMap {POLICIES}"
    first = put(api, config_map(Settings()))
    until(lambda: deployed.revision == first)
    assert deployed.trouble is None
    second = put(api, config_map(Settings(contact="#platform")))
    until(lambda: deployed.revision == second)
    assert refusal(deployed).endswith("(ask #platform)")
    code = (
        "from fairlead.engines.python.api import Decision\n"
        "def decide(request, parameters, settings):\n"
        "    return Decision(deny=frozenset({'other code'}))\n"
    )
    third = put(api, config_map(Settings(), **{CODE: code}))
    until(lambda: deployed.revision == third)
    assert refusal(deployed) == "other code"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found'"),
        ("raise SystemError\n", "SystemError"),
        ("x = 1\n", "has no function decide"),
    ],
)
def test_what_cannot_be_used_is_told_and_the_policies_before_stay(
    api: FakeApiServer, deployed: Deployed, code: str, error: str
) -> None:
    first = put(api, config_map(Settings()))
    until(lambda: deployed.revision == first)
    broken = put(api, config_map(Settings(), **{CODE: code}))
    until(lambda: deployed.rejected)
    assert deployed.rejected
    assert deployed.rejected["revision"] == broken
    assert error in deployed.rejected["error"]
    assert (deployed.revision, deployed.trouble) == (first, None)
    put(api, config_map(Settings()))
    until(lambda: deployed.rejected is None)


def test_the_policies_stay_while_another_engine_takes_over(
    api: FakeApiServer, deployed: Deployed
) -> None:
    first = put(api, config_map(Settings()))
    until(lambda: deployed.revision == first)
    other = config_map(Settings(contact="#other"))
    del other["metadata"]["annotations"][ENGINE_ANNOTATION]
    put(api, other)
    api.delete("configmaps", POLICIES, namespace=NAMESPACE)
    again = put(api, config_map(Settings(contact="#third")))
    until(lambda: deployed.revision == again)  # so the events before were read, too
    assert refusal(deployed).endswith("(ask #third)")


def test_a_worker_reports_until_it_is_killed(tmp_path: Path) -> None:
    own = Reports(tmp_path)
    own.write({"revision": "a"})
    script = (
        "import sys, time; from pathlib import Path\n"
        "from fairlead.engines.python.serving.reports import Reports\n"
        "reports = Reports(Path(sys.argv[1])); reports.write({'revision': 'b'})\n"
        "print('there', flush=True); time.sleep(600)\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout
    assert other.stdout.readline() == "there\n"
    assert sorted(report["revision"] for report in own.read()) == ["a", "b"]
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert list(own.read()) == [{"revision": "a"}]


def test_deployed_policies_have_their_own_settings(tmp_path: Path) -> None:
    arguments = ["--deployed", "--settings", "fairlead.yaml"]
    files = [f"--tls-cert-file={tmp_path / 'a'}", f"--tls-private-key-file={tmp_path / 'b'}"]
    done = CliRunner().invoke(command, [*arguments, *files])
    assert done.exception
    assert "--deployed reads the settings from the cluster" in str(done.exception)

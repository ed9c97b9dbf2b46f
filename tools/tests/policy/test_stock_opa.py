"""The policies are plain Rego: an OPA without the plugin, and without any option of Fairlead's,
loads, tests and evaluates them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import requests

from fairlead.clusters.embedded import ports
from fairlead.common import paths, waiting
from fairlead.opa import cli
from fairlead.programs import toolchain

_ROOT = paths.root()
_DEADLINE = 60.0  # seconds
# A test has five seconds by default, too few on a busy machine.
_PATIENT = "--timeout=120s"


def _program() -> Path:
    return toolchain.ensure(["opa"])["opa"]


def _opa(*arguments: str) -> str:
    """What `opa` prints, in the root of the checkout."""
    completed = subprocess.run(
        [_program(), *arguments],
        cwd=_ROOT,
        env=cli.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not completed.returncode, completed.stdout[-3000:] + completed.stderr[-3000:]
    return completed.stdout


@pytest.mark.parametrize("flags", [(), ("-b",)], ids=["as files", "as a bundle"])
def test_all_tests_pass(flags: tuple[str, ...]) -> None:
    assert re.fullmatch(r"PASS: (\d+)/\1\n", _opa("test", _PATIENT, *flags, "policies"))


def test_the_readme_evaluates_a_review() -> None:
    (command,) = re.findall(r"^opa (eval .*)$", (_ROOT / "README.md").read_text(), re.MULTILINE)
    ((result,),) = (
        each["expressions"] for each in json.loads(_opa(*shlex.split(command)))["result"]
    )
    assert result["value"]["response"]["auditAnnotations"]["node-pool"] == "placed: pool1"


def test_an_opa_that_loads_the_folder_as_a_bundle_becomes_ready() -> None:
    (port,) = ports.free_ports(1)
    url = f"http://127.0.0.1:{port}"
    arguments = ["run", "--server", "--log-level=error", f"--addr=127.0.0.1:{port}"]
    with subprocess.Popen(
        [_program(), *arguments, "--bundle", "policies"], cwd=_ROOT, env=cli.environment()
    ) as opa:
        try:
            waiting.until(lambda: _status(f"{url}/health"), deadline=_DEADLINE, what="OPA")
            assert _status(f"{url}/health/ready") == requests.codes.server_error
            namespaces = requests.put(
                f"{url}/v1/data/kubernetes/namespaces", json={}, timeout=_DEADLINE
            )
            namespaces.raise_for_status()
            assert _status(f"{url}/health/ready") == requests.codes.ok
        finally:
            opa.terminate()


def _status(url: str) -> int | None:
    try:
        return requests.get(url, timeout=_DEADLINE).status_code
    except requests.RequestException:
        return None

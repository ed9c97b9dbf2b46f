"""The GitHub Action: its steps run as they are, in the shell and with the files that GitHub gives
them. Steps that use other actions are only compared with those of the workflow."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import offline_pip
import pytest
import yaml

from fairlead.common import paths

ACTION: dict[str, Any] = yaml.safe_load((paths.root() / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
MANIFESTS = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: payments}
spec: {containers: [], nodeName: n1}
"""


class Runner:
    """Runs steps of the action, as a runner does for a job of another repository."""

    def __init__(self, folder: Path) -> None:
        self.action = folder / "action"
        offline_pip.copy_checkout(self.action)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.output = folder / "output"
        self.output.touch()
        self.workspace = folder / "workspace"
        self.workspace.mkdir()

    def run(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        (step,) = [step for step in STEPS if step.get("id") == name]
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in a script could be a command"
        values = {key: value.get("default", "") for key, value in ACTION["inputs"].items()}
        values |= {key.replace("_", "-"): value for key, value in inputs.items()}
        variables = {
            variable: re.sub(
                r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda match: values[match[1]], expression
            )
            for variable, expression in step.get("env", {}).items()
        }
        script = self.temporary / "step.sh"
        script.write_text(step["run"])
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],  # noqa: S607
            cwd=self.workspace,
            env={
                **offline_pip.environment(),
                "GITHUB_ACTION_PATH": str(self.action),
                "GITHUB_OUTPUT": str(self.output),
                "RUNNER_TEMP": str(self.temporary),
                **variables,
            },
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """A runner that has installed Fairlead, with a manifest that is refused in `my apps`."""
    runner = Runner(tmp_path_factory.mktemp("runner"))
    for name in ("pins", "install"):
        done = runner.run(name)
        assert done.returncode == 0, done.stdout + done.stderr
    (runner.workspace / "my apps").mkdir()
    (runner.workspace / "my apps" / "web.yaml").write_text(MANIFESTS)
    (runner.workspace / "mapped.yaml").write_text(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: payments, labels: {agentpool: gpu}}\n"
    )
    return runner


def test_a_refusal_fails_the_step_and_is_shown_and_reported(runner: Runner) -> None:
    done = runner.run("check", sarif="fairlead.sarif", junit="fairlead.xml")
    assert done.returncode == 1, done.stderr
    assert 'my apps/web.yaml:1: refused: Pod payments/web: pod "web" sets' in done.stdout
    log = json.loads((runner.workspace / "fairlead.sarif").read_text())
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["node-pool"]
    assert 'failures="1"' in (runner.workspace / "fairlead.xml").read_text()


def test_inputs_are_passed_on_line_by_line(runner: Runner) -> None:
    (runner.workspace / "lenient.yaml").write_text("enforcement: {node-pool: warn}\n")
    inputs = {"paths": "my apps\nmapped.yaml\n", "settings": "lenient.yaml"}
    assert runner.run("check", **inputs).returncode == 0
    assert runner.run("check", **inputs, fail_on="refused,warned").returncode == 1
    done = runner.run("check", paths="my apps", arguments="--namespace-labels=agentpool=gpu\n")
    assert (done.returncode, 'pool "gpu"' in done.stdout) == (1, True)
    done = runner.run("check", paths="my apps", arguments="--namespace-labels=")
    assert (done.returncode, done.stdout) == (0, "1 object in 1 file: 1 admitted\n")


def test_wrong_usage_ends_the_step_with_its_reason(runner: Runner) -> None:
    done = runner.run("check", paths="nowhere", sarif="nowhere.sarif")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere: cannot be read" in done.stderr


def test_an_input_is_never_run_as_a_command(runner: Runner) -> None:
    done = runner.run("check", paths="$(touch evil); `touch evil`", arguments='"; touch evil; "')
    assert done.returncode == 2
    assert not (runner.workspace / "evil").exists()


def test_what_it_installs_is_pinned_by_hash() -> None:
    (script,) = [step["run"] for step in STEPS if step.get("id") == "install"]
    installs = [line.strip() for line in script.splitlines() if line.strip().startswith("pip -")]
    assert installs[0] == 'pip --require-hashes -r "$GITHUB_ACTION_PATH/requirements.txt"'
    assert installs[1].startswith("pip --no-deps --no-build-isolation ")
    requirements = (paths.root() / "requirements.txt").read_text()
    pins = re.findall(r"^[a-z0-9][^ ]*==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", requirements, re.M)
    assert len(pins) == len(re.findall(r"^[a-z0-9]", requirements, re.M)) > 50
    assert "\nsetuptools==" in requirements


def test_the_cache_is_named_after_the_pins_of_opa(runner: Runner) -> None:
    assert re.fullmatch(r"digest=[0-9a-f]{16}\n", runner.output.read_text())
    (cache,) = [step["with"] for step in STEPS if "actions/cache@" in step.get("uses", "")]
    assert cache["path"] == "~/.cache/fairlead"
    assert "${{ steps.pins.outputs.digest }}" in cache["key"]


def test_the_actions_that_it_uses_are_those_of_the_workflow() -> None:
    workflow = (paths.root() / ".github" / "workflows" / "ci.yaml").read_text()
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert len(used) == 3
    assert all(f"uses: {name} #" in workflow for name in used), used
    for setting in ('python-version: "3.11"', 'go-version: "1.26"'):
        assert setting in workflow
        assert setting in (paths.root() / "action.yml").read_text()


@pytest.mark.parametrize(
    "file",
    [
        "action.yml",
        ".github/workflows/ci.yaml",
        ".github/workflows/nightly.yaml",
        "tools/templates/repository/dot-github/workflows/policies.yml.j2",
    ],
)
def test_actions_are_pinned_by_the_hash_of_a_commit(file: str) -> None:
    used = re.findall(r"uses: (.*)", (paths.root() / file).read_text())
    assert used
    for name in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", name)

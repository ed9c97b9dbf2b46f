"""Measures how long `fairlead eval FOLDER` takes for many manifests, and how long other starts of
the program take; writes bench/gate.json and prints it.

These are figures, not tests: a busy machine has worse ones. `opa eval` decides on the same requests
in one process, which is the least that a check by these policies takes. Each value is the median of
several runs. 1,000 manifests should take less than 3 seconds, as a hook runs before each commit.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from fairlead.analysis import request_files
from fairlead.cli import output
from fairlead.common import paths
from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

RESULTS = "bench/gate.json"
FOLDERS = 20
IN_A_FILE = 4
"""Documents, as teams put what belongs together into one file."""
_QUERY = """[answer |
    some review in data.reviews
    answer := data.system.main with input as review with http.send as {"status_code": 404, "body": {}}
]"""  # noqa: E501
_CONTAINER = {
    "name": "app",
    "image": "registry.example.com/app:1.2.3",
    "env": [{"name": name, "value": "x"} for name in ("REGION", "STAGE", "LOG_LEVEL")],
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
    "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
}


def manifests(count: int, seed: int) -> list[dict[str, Any]]:
    """Manifests as repositories have them: workloads with their Services and ConfigMaps, some pods,
    and a Namespace for every 50 of them, half of which have a pool.
    """
    choose = random.Random(seed)  # noqa: S311 - no secret
    made: list[dict[str, Any]] = []
    for number in range(count):
        namespace = f"team-{number // 50}"
        if number % 50 == 0:
            labels = {"agentpool": "pool1"} if number % 100 == 0 else {"team": namespace}
            made.append(_manifest("v1", "Namespace", {"name": namespace, "labels": labels}))
            continue
        metadata = {"name": f"app-{number}", "namespace": namespace, "labels": {"app": "app"}}
        spec: dict[str, Any] = {"containers": [_CONTAINER]}
        spec |= choose.choice([{}, {}, {}, {"nodeSelector": {"agentpool": "other"}}])
        template = {"metadata": {"labels": {"app": "app"}}, "spec": spec}
        selector = {"matchLabels": {"app": "app"}}
        made.append(
            choose.choice(
                [
                    _manifest("v1", "Pod", metadata, spec=spec),
                    _workload("apps/v1", "Deployment", metadata, template, selector=selector),
                    _workload("apps/v1", "DaemonSet", metadata, template, selector=selector),
                    _workload("apps/v1", "StatefulSet", metadata, template, selector=selector),
                    _manifest("v1", "Service", metadata, spec={"ports": [{"port": 80}]}),
                    _manifest("v1", "ConfigMap", metadata, data={"config.yaml": "a: b\n" * 20}),
                ]
            )
        )
    return made


def _workload(
    version: str, kind: str, metadata: dict[str, Any], template: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    return _manifest(version, kind, metadata, spec={"template": template, **spec})


def _manifest(version: str, kind: str, metadata: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def write(made: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write the manifests into files of FOLDERS folders."""
    for number, start in enumerate(range(0, len(made), IN_A_FILE)):
        file = folder / f"part-{number % FOLDERS}" / f"{number}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump_all(made[start : start + IN_A_FILE], sort_keys=False))


def measured(run: Callable[[], object], times: int) -> tuple[float, float]:
    """The median seconds of several runs, and those of all processors together, which a busy
    machine changes less. A run before them fills caches.
    """
    run()
    seconds, of_processors = [], []
    for _ in range(times):
        began, used = time.monotonic(), _used()
        run()
        seconds.append(time.monotonic() - began)
        of_processors.append(_used() - used)
    return round(statistics.median(seconds), 2), round(statistics.median(of_processors), 2)


def _used() -> float:
    """The seconds of processors that ended child processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def fairlead(*arguments: str | Path) -> Callable[[], object]:
    """A run of the command. It may find objects that the policies refuse."""
    command = [sys.executable, "-m", "fairlead", *map(str, arguments)]

    def run() -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise click.ClickException(done.stderr)

    return run


def opa(folder: Path) -> Callable[[], object]:
    """`opa eval` of all requests at once, without reading files or asking about webhooks."""
    inputs = request_files.read([folder])
    modules = PolicySet.load(Settings()).modules
    data = {
        "kubernetes": {"namespaces": inputs.namespaces},
        "reviews": [request.review for request in inputs.requests],
    }
    return lambda: cli.evaluate(_QUERY, modules=modules, data=data)


@click.command()
@click.option("--manifests", "count", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
def main(count: int, runs: int, seed: int) -> None:
    """Measure how fast `fairlead eval` is as a gate; write bench/gate.json."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(manifests(count, seed), folder)
        file = min(folder.rglob("*.yaml"))
        review = paths.root() / "testdata" / "review.json"
        commands = {
            f"opa eval, {count} manifests": opa(folder),
            f"fairlead eval, {count} manifests": fairlead("eval", folder, "--fail-on", "refused"),
            "fairlead eval, a file": fairlead("eval", file, "--fail-on", "refused"),
            "fairlead eval, a review": fairlead("eval", review),
            "fairlead --help": fairlead("--help"),
        }
        rows: list[dict[str, Any]] = []
        for figure, run in commands.items():
            seconds, of_processors = measured(run, runs)
            rows.append(
                {"figure": figure, "seconds": seconds, "ofProcessors": of_processors}
                | {"timesOpa": round(seconds / (rows or [{"seconds": seconds}])[0]["seconds"], 1)}
            )
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

"""Measures how long real OPAs take to follow a signed bundle, and what that costs; writes
bench/bundle.json and prints it.

These are figures, not tests: a busy machine has worse times; CPU seconds and bytes depend less on
it. All OPAs run on this machine, so they share its processors for each new revision, which OPAs on
machines of their own do not.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import click

from fairlead.cli import output
from fairlead.common import paths, waiting
from fairlead.common.progress import Progress
from fairlead.distribution import contents, signatures
from fairlead.distribution.archives import Archive
from fairlead.settings.models import Settings
from lab.followers import BundleServer, Follower

RESULTS = "bench/bundle.json"
TARGET = 5.0
"""Seconds within which all OPAs should have a new revision."""
_PATIENCE = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
Row = dict[str, Any]


def revisions() -> Iterator[Archive]:
    """Policies that differ in one setting."""
    number = 0
    while True:
        yield contents.policies(Settings(contact=f"team {number}"), None, Progress())
        number += 1


def namespaces(count: int) -> Iterator[Archive]:
    """Data of so many mapped namespaces, of which one changes its pool."""
    number = 0
    while True:
        thin = {
            name: {"metadata": {"name": name, "labels": {"agentpool": f"pool-{index % 20}"}}}
            for index in range(count)
            for name in (f"namespace-{index:05}",)
        }
        thin["namespace-00000"]["metadata"]["labels"] = {"agentpool": f"new-{number}"}
        yield contents.data({"kubernetes": {"namespaces": thin}})
        number += 1


def processor(pid: int | None) -> float:
    """The CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int | None) -> int:
    """The resident memory of a process, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return round(next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1000)


def followed(
    server: BundleServer, opas: list[Follower], made: Iterator[Archive], count: int
) -> Row:
    """Push so many revisions one after another: the times from the push until all OPAs have
    reported each, and the CPU seconds of all processes.
    """
    times, sizes = [], []
    opas_before = sum(processor(opa.pid) for opa in opas)
    server_before = processor(server.pid)
    for _ in range(count):
        archive = next(made)
        signed = server.signed(archive)
        began = time.monotonic()
        server.put(signed)
        _until_all(server, archive, len(opas))
        times.append(time.monotonic() - began)
        sizes.append(len(signed.packed()))
    return {
        "bundle": archive.name,
        "opas": len(opas),
        "revisions": count,
        "bytes": max(sizes),
        "p50": round(median(times), 2),
        "max": round(max(times), 2),
        "cpuOfOpa": round(
            (sum(processor(o.pid) for o in opas) - opas_before) / count / len(opas), 3
        ),
        "cpuOfServer": round((processor(server.pid) - server_before) / count, 3),
        "memoryOfOpa": max(memory(opa.pid) for opa in opas),
        "memoryOfServer": memory(server.pid),
    }


def restarted(server: BundleServer, opas: list[Follower]) -> Row:
    """Restart each OPA without the server: the times until it is Ready by what it has kept."""
    server.stop()
    times = []
    for opa in opas:
        opa.stop()
        began = time.monotonic()
        opa.launch()
        _until(opa.ready, "the OPA is ready without the server")
        times.append(time.monotonic() - began)
    return {
        "bundle": "both, from the disk",
        "opas": len(opas),
        "p50": round(median(times), 2),
        "max": round(max(times), 2),
    }


def _until_all(server: BundleServer, archive: Archive, count: int) -> None:
    def all_have_it() -> bool:
        row = server.of_bundle(archive.name)
        return bool(row["revision"] == archive.revision and row["onRevision"] == count)

    _until(all_have_it, "all OPAs have the revision")


def _until(check: Callable[[], Any], what: str) -> None:
    waiting.until(check, deadline=_PATIENCE, what=what, pause=0.02)


@click.command()
@click.option("--opas", "count", type=click.IntRange(1), default=20, show_default=True)
@click.option("--revisions", "pushes", type=click.IntRange(1), default=10, show_default=True)
@click.option("--namespaces", "mapped", type=click.IntRange(1), default=10_000, show_default=True)
def main(count: int, pushes: int, mapped: int) -> None:
    """Measure OPAs that follow signed bundles; write bench/bundle.json."""
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder, ExitStack() as running:
        at = Path(folder)
        server = BundleServer(at / "server", signatures.new_key())
        running.callback(server.stop)
        server.start()
        policies, data = revisions(), namespaces(mapped)
        server.push(next(data))
        server.push(next(policies))
        opas = [Follower(at / str(number), server) for number in range(count)]
        for opa in opas:
            running.callback(opa.stop)
            opa.launch()
        for opa in opas:
            _until(opa.ready, "all OPAs are ready")
        rows = [
            followed(server, opas, policies, pushes),
            followed(server, opas, data, pushes),
            restarted(server, opas),
        ]
    for row in rows:
        row["met"] = row["max"] <= TARGET
    (paths.root() / RESULTS).write_text(json.dumps(rows, indent=1) + "\n")
    output.rows(None, tuple(rows[0]), rows)(output.console())


if __name__ == "__main__":
    main()

"""Measures the memory of every part: of the servers that run side by side, and of OPAs with more
namespaces than an embedded cluster should have."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common import paths
from fairlead.opa.api import OpaApi
from fairlead.policy.policy_set import PolicySet
from lab import decision_cost
from lab.bench import figures, processes
from lab.bench.figures import Row
from lab.bench.ground import DEADLINE, SETTINGS, Ground
from lab.bench.starts import OPA, SIDECAR, cold_start

_NAME = "opa-memory"


def of_servers(ground: Ground) -> Iterator[Row]:
    """The MiB of each server in the cluster."""
    for name, pid in ground.pids().items():
        yield _row(name, ground.namespaces, "memory of a server", processes.memory(pid))


def of_deployment(ground: Ground, label: str, count: int, starts: int) -> Iterator[Row]:
    """The MiB of Fairlead's OPA and its sidecar together, each time after a start: without
    namespaces, with `count` that are not mapped, and when these are mapped by the label.
    """
    yield _deployed(ground, starts, mapped=False)
    ground.fill(count, [])
    yield _deployed(ground, starts, mapped=False)
    ground.label([label])
    yield _deployed(ground, starts, mapped=True)


def _deployed(ground: Ground, starts: int, *, mapped: bool) -> Row:
    taken: dict[str, list[int]] = {OPA: [], SIDECAR: []}
    for number in range(starts):
        ground.progress.update("memory", "starting OPA", done=number, total=starts)
        cold_start(ground)
        pids = ground.pids()
        for name, values in taken.items():
            values.append(processes.memory(pids[name]))
    ground.progress.finish("memory", f"measured with {ground.namespaces} namespaces")
    both = [sum(values) for values in zip(*taken.values(), strict=True)]
    return figures.times(
        "memory",
        "Fairlead opa",
        ground.namespaces,
        "memory of OPA and its sidecar",
        "MiB",
        both,
        mapped=mapped,
        by_process={name: statistics.median(values) for name, values in taken.items()},
    )


def of_data(ground: Ground, sizes: Sequence[int]) -> Iterator[Row]:
    """The MiB of an OPA by itself, with so many namespaces: the fields that Fairlead copies, and
    whole ones. Raises FairleadError.
    """
    folder = ground.tls / "policies"
    folder.mkdir()
    for name, text in PolicySet.load(SETTINGS).modules.items():
        (folder / name).write_text(text, encoding="utf-8")
    peers = paths.root() / "bench" / "peers"
    (sample,) = (ground.api.request("GET", "/api/v1/namespaces/fairlead").body,)
    for size in sizes:
        thin = decision_cost.mapped(size)
        whole = {name: {**sample, **_named(sample, name, each)} for name, each in thin.items()}
        for peer, policy, data in (
            ("Fairlead opa", folder, thin),
            ("plain OPA look-up", peers / "look_up.rego", whole),
        ):
            ground.progress.update("memory", f"{peer}, {size} namespaces")
            yield _row(peer, size, "memory of OPA alone", _with_data(ground, policy, data))
    ground.progress.finish("memory", "measured")


def _named(sample: Mapping[str, Any], name: str, thin: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**sample["metadata"]["labels"], **thin["metadata"]["labels"]}
    return {"metadata": {**sample["metadata"], "name": name, "labels": labels}}


def _with_data(ground: Ground, policy: Path, data: Mapping[str, Any]) -> int:
    url = ground.start_opa(_NAME, policy)
    try:
        api = OpaApi(url, ca=ground.tls / "ca.crt", timeout=DEADLINE)
        api.put_document(["kubernetes", "namespaces"], data)
        api.close()
        return processes.memory(ground.pids()[_NAME])
    finally:
        ground.cluster.stop_server(_NAME)
        del ground.opas[_NAME]


def _row(peer: str, size: int, metric: str, mebibytes: int) -> Row:
    return figures.row("memory", peer, size, metric, "MiB", p50=mebibytes)

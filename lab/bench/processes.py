"""What processes take of the machine. Source: proc(5)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from fairlead.clusters.embedded.bare_cluster import BareCluster

_TICKS = os.sysconf("SC_CLK_TCK")


def pids(cluster: BareCluster) -> dict[str, int]:
    """The servers of the cluster that run now, by name."""
    servers = cluster.servers()
    return {name: each["pid"] for name, each in servers.items() if each["pid"] is not None}


def command(pid: int) -> list[str]:
    """The program of a process, with its arguments."""
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")


def memory(pid: int) -> int:
    """The memory of a process and its descendants in MiB. A page that several processes share
    counts for each in part.
    """
    return memories({"": pid})[""]


def memories(pids: Mapping[str, int]) -> dict[str, int]:
    """The same of each of these processes, by a name."""
    children = _children()
    return {name: sum(map(_proportional, _tree(pid, children))) >> 10 for name, pid in pids.items()}


def _proportional(pid: int) -> int:
    """The same of one process, in KiB; 0 if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        return int(rollup.partition("Pss:")[2].split()[0])
    return 0


def processor(pids: Mapping[str, int]) -> dict[str, float]:
    """The seconds of processor time that each of these processes, by a name, and its descendants
    have taken since their start.
    """
    children = _children()
    return {name: sum(map(_seconds, _tree(pid, children))) for name, pid in pids.items()}


def _seconds(pid: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        user, system = _fields(Path(f"/proc/{pid}/stat"))[11:13]
        return (int(user) + int(system)) / _TICKS
    return 0.0


def _children() -> Mapping[int, list[int]]:
    """The processes of this machine by their parent."""
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            children[int(_fields(stat)[1])].append(int(stat.parent.name))
    return children


def _tree(pid: int, children: Mapping[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children.get(pid, ()):
        yield from _tree(child, children)


def _fields(stat: Path) -> list[str]:
    """The fields after the name of the process, which may hold spaces: state, parent, ..."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()

"""The memory limits of the deployed containers, a cgroup that enforces them, and the peak memory of
a process.

The limits are read from the manifests, so that the tested limits are those that are deployed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.sidecars import SYNC
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class _Controller(NamedTuple):
    """The files of a version of the memory controller."""

    root: Path
    limit: str
    usage: str
    events: str
    membership: str
    """The pattern of the line in /proc/PID/cgroup with the cgroup of the process."""


_CONTROLLERS = (
    _Controller(
        Path("/sys/fs/cgroup/memory"),
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "memory.oom_control",
        r"\d+:memory:(.*)",
    ),
    _Controller(
        Path("/sys/fs/cgroup"), "memory.max", "memory.current", "memory.events", r"0::(.*)"
    ),
)


def deployed(settings: Settings) -> Mapping[str, int]:
    """The limit of each container of OPA's pod with the sidecar `sync`, in bytes."""
    return {
        name: _bytes(container["resources"]["limits"]["memory"])
        for name, container in _containers(settings)
    }


def go_environment(settings: Settings) -> dict[str, str]:
    """The environment of OPA's container for the Go runtime: GOMEMLIMIT."""
    opa = dict(_containers(settings))["opa"]
    return {
        variable["name"]: variable["value"]
        for variable in opa["env"]
        if variable["name"].startswith("GO")
    }


def peak(pid: int | None) -> int:
    """The peak resident memory of a process in bytes; 0 if unknown, as on other systems than
    Linux.
    """
    return _status(pid, "VmHWM")


def forget_peak(pid: int | None) -> None:
    """Reset the peak memory of a process, if the system can."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


class MemoryLimit:
    """A cgroup with a memory limit of `size` bytes for one process, if this machine allows to
    create one.

    A limit of the address space (RLIMIT_AS) would not limit memory, because Go and glibc reserve
    much more address space than they use.
    """

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self._controller: _Controller | None = None
        self._folder = Path()
        self._before: dict[int, Path] = {}
        """The original cgroup of each process."""
        for controller in _CONTROLLERS:
            folder = controller.root / f"fairlead-{name}-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                (folder / controller.limit).write_text(str(size))
            except OSError:
                folder.rmdir()
                continue
            self._controller, self._folder = controller, folder
            break

    @property
    def enforced(self) -> bool:
        """Whether the kernel enforces the limit."""
        return self._controller is not None

    @property
    def kills(self) -> int:
        """The number of processes that the kernel killed because they exceeded the limit."""
        if self._controller is None:
            return 0
        match = re.search(
            r"^oom_kill (\d+)$", (self._folder / self._controller.events).read_text(), re.MULTILINE
        )
        return int(match[1]) if match else 0

    def confined(self, argv: Sequence[str]) -> list[str]:
        """The command, as one that runs within the limit from its beginning. Where no cgroup can be
        made, its data may be as large (RLIMIT_DATA), which suits a program that reserves no more
        memory than it uses, with small stacks for its threads.
        """
        if self._controller is None:
            limits = f"ulimit -s 512 && ulimit -d {self.size // 1024}"
            return ["sh", "-c", f'{limits} && exec "$@"', "sh", *argv]
        members = self._folder / "cgroup.procs"
        return ["sh", "-c", f'echo $$ > {members} && exec "$@"', "sh", *argv]

    def hold(self, pid: int | None) -> None:
        """Apply the limit to a running process. It is reduced by the memory that stays counted in
        the original cgroup.
        """
        if self._controller is None or pid is None:
            return
        with contextlib.suppress(OSError):  # it has ended
            match = re.search(
                f"^{self._controller.membership}$",
                Path(f"/proc/{pid}/cgroup").read_text(),
                re.MULTILINE,
            )
            self._before[pid] = self._controller.root / (match[1].lstrip("/") if match else "")
            (self._folder / "cgroup.procs").write_text(str(pid))
            counted = int((self._folder / self._controller.usage).read_text())
            elsewhere = max(0, _status(pid, "RssAnon") - counted)
            (self._folder / self._controller.limit).write_text(str(self.size - elsewhere))

    def close(self) -> None:
        """Move the process back to its original cgroup, and remove this one."""
        if self._controller is None:
            return
        for pid, folder in self._before.items():
            with contextlib.suppress(OSError):  # it has ended
                (folder / "cgroup.procs").write_text(str(pid))
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def _containers(settings: Settings) -> list[tuple[str, dict[str, Any]]]:
    policies = PolicySet.load(settings)
    objects = manifests.render_objects(policies, Credentials.fresh([]), sidecar=SYNC)
    deployment = next(manifest for manifest in objects if manifest["kind"] == "Deployment")
    return [
        (container["name"], container)
        for container in deployment["spec"]["template"]["spec"]["containers"]
    ]


def _bytes(quantity: str) -> int:
    number = quantity.rstrip("KMGi")
    return int(number) * _UNITS[quantity[len(number) :]]


def _status(pid: int | None, field: str) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0

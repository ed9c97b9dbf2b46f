"""Sends requests with fairlead-load (lab/load)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import toolchain
from fairlead.programs.toolchain import programs

PROGRAM = programs.own("fairlead-load", "lab/load")


@dataclass(frozen=True)
class Burst:
    """What became of some requests: the milliseconds of each, also of those that failed, the
    seconds that all took, and how many failed.
    """

    milliseconds: list[float]
    seconds: float
    failed: int


class Load:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def burst(self, url: str, body: Mapping[str, Any], *, clients: int, requests: int) -> Burst:
        """Send a POST request so many times, by so many clients at once. Raises FairleadError if
        more than a tenth of them fail, as the others say nothing then.
        """
        asked = {"url": url, "body": json.dumps(body), "clients": clients, "requests": requests}
        if self._process.stdin is None or self._process.stdout is None:
            raise FairleadError(f"{PROGRAM.name} was not started with pipes")
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise FairleadError(f"{PROGRAM.name} has ended")
        result = json.loads(line)
        if result["failed"] > requests / 10:
            what = f"{result['failed']} of {requests} requests to {url} failed"
            raise FairleadError(f"{what}: {result['error']}")
        return Burst(result["milliseconds"], result["seconds"], result["failed"])


@contextmanager
def running(keys: Path, progress: Progress) -> Iterator[Load]:
    """The program, as the administrator whose certificate is in the cluster's folder `keys`."""
    program = toolchain.ensure([PROGRAM], progress)[PROGRAM.name]
    argv: list[str | Path] = [program, f"--ca-file={keys / 'ca.crt'}"]
    argv += [f"--cert-file={keys / 'admin.crt'}", f"--key-file={keys / 'admin.key'}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Load(process)
        finally:
            process.kill()

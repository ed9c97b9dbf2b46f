"""Tiny processes that stand for servers, and helpers to inspect them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.clusters.embedded import client, process_list

DEADLINE = 30.0
SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(1000)"]
STUBBORN = [
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(1000)",
]
# A command that has started servers, told their pids, and works on.
COMMAND = """
import json, sys, time
from pathlib import Path
from fairlead.clusters.embedded.client import Supervisor

supervisor = Supervisor.start(Path(sys.argv[1]))
pids = [supervisor.start_server(name, json.loads(sys.argv[3])) for name in sys.argv[4:]]
if sys.argv[2] == "detach":
    supervisor.detach()
print(json.dumps(pids), flush=True)
if sys.argv[2] != "detach":
    time.sleep(1000)
"""


def until(what: Callable[[], object], condition: str) -> None:
    end = time.monotonic() + DEADLINE
    while not what():
        assert time.monotonic() < end, f"not within {DEADLINE:.0f} s: {condition}"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    return process_list.started(pid) is None


def servers(folder: Path) -> dict[str, process_list.ServerRecord]:
    record = process_list.read(folder)
    assert record
    return record["servers"]


def supervisor_pid(folder: Path) -> int:
    record = process_list.read(folder)
    assert record
    return record["supervisor"]["pid"]


def up(folder: Path, name: str) -> bool:
    """Whether the server's program runs and has set its signal handlers."""
    return "up" in client.tail(folder / client.LOGS / f"{name}.log")


def command(
    folder: Path, how: str, argv: list[str], names: Sequence[str] = ("first", "second")
) -> tuple[subprocess.Popen[str], list[int]]:
    arguments = [str(folder), how, json.dumps(argv), *names]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, json.loads(process.stdout.readline())


def telling(path: Path, what: str) -> list[str]:
    """A server that appends `what` to the file `path` when it is asked to end."""
    end = f"lambda *_: (open({str(path)!r}, 'a').write({what!r}), sys.exit())"
    code = (
        f"import signal, sys, time; signal.signal(signal.SIGTERM, {end}); print('up', "
        "flush=True); time.sleep(1000)"
    )
    return [sys.executable, "-S", "-c", code]

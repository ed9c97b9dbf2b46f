"""Owns the servers of one embedded cluster, as a kubelet owns containers: starts, restarts and
stops them.

Run as `python -m fairlead.clusters.embedded.supervisor FOLDER`. It is a process of its own so that
nothing stays behind whatever becomes of the command that started it: its standard input is that
command's lifeline, and when it closes before a `detach`, every server is stopped. Standard library
only: it lives as long as the cluster.

Commands and answers are JSON lines, on standard input and output and, for later commands, on the
socket in FOLDER: {"start": {"name", "argv", "env", "log", "keep", "probe"}} (the last two may be
left out), {"keep": NAME} (from now on restart it when it dies), {"stop": NAME}, {"detach": true};
each answered by {"pid": N} or {}, or {"error": TEXT}.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fairlead.clusters.embedded import process_list
from fairlead.clusters.embedded.server import GRACE, Probe, Server
from fairlead.common import texts

SOCKET = "supervisor.sock"


@dataclass
class _Connection:
    send: Callable[[bytes], object]
    close: Callable[[], None]
    lifeline: bool = False
    buffer: bytes = b""


@dataclass
class _Supervisor:
    folder: Path
    servers: dict[str, Server] = field(default_factory=dict)
    ending: bool = False
    detached: bool = False
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> None:
        """Serve until the lifeline closes or a signal ends it; then stop every server."""
        wake = self._signals()
        listener = _listen(SOCKET)
        self.selector.register(wake, selectors.EVENT_READ)
        self.selector.register(listener, selectors.EVENT_READ)
        os.set_blocking(0, False)
        lifeline = _Connection(
            lambda data: os.write(1, data), _leave_standard_streams, lifeline=True
        )
        self.selector.register(0, selectors.EVENT_READ, lifeline)
        try:
            self._save()
            lifeline.send(b'{"pid": %d}\n' % os.getpid())
            while not self.ending:
                for key, _ in self.selector.select(self._until_next_restart()):
                    if key.fileobj is wake:
                        wake.recv(4096)
                    elif key.fileobj is listener:
                        self._accept(listener)
                    else:
                        self._receive(key)
                self._reap()
                self._restart()
        finally:
            listener.close()
            self._end()

    def _signals(self) -> socket.socket:
        """A file descriptor that becomes readable when a child has ended, or when this
        process has to end.
        """
        wake, writer = socket.socketpair()
        for end in (wake, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_end)
        return wake

    def _on_end(self, _number: int, _frame: FrameType | None) -> None:
        self.ending = True

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            client.settimeout(GRACE)
            self.selector.register(
                client, selectors.EVENT_READ, _Connection(client.sendall, client.close)
            )

    def _receive(self, key: selectors.SelectorKey) -> None:
        """Read what has arrived on a connection, and answer every whole line."""
        connection: _Connection = key.data
        try:
            data = os.read(key.fd, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        connection.buffer += data
        *lines, connection.buffer = connection.buffer.split(b"\n")
        detached = self.detached
        for line in lines:
            with contextlib.suppress(OSError):  # if the client is gone, the next read shows it
                connection.send(json.dumps(self._answer(line)).encode() + b"\n")
        if not data or (connection.lifeline and self.detached and not detached):
            self.selector.unregister(key.fileobj)
            connection.close()
            self.ending = self.ending or (connection.lifeline and not self.detached)

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            command = json.loads(line)
            if "start" in command:
                return {"pid": self._start(_server(**command["start"]))}
            if "keep" in command:
                self.servers[command["keep"]].run_from_now_on()
            elif "stop" in command:
                self.servers.pop(command["stop"]).stop()
                self._save()
            elif "detach" in command:
                self.detached = True
                for server in self.servers.values():
                    server.run_from_now_on()
            else:
                return {"error": f"unknown command {command}"}
        except KeyError as error:
            return {"error": f"no server {error}"}
        except OSError as error:
            return {
                "error": f"{error.strerror} ({error.filename})" if error.filename else str(error)
            }
        except (ValueError, TypeError, subprocess.SubprocessError) as error:
            return {"error": str(error)}
        return {}

    def _start(self, server: Server) -> int:
        before = self.servers.get(server.name)
        if before and (before.pid or before.keep):
            raise ValueError(f"{server.name} runs already")
        pid = server.start()
        self.servers.pop(server.name, None)
        self.servers[server.name] = server
        try:
            self._save()
        except OSError:
            self.servers.pop(server.name).stop()
            raise
        return pid

    def _reap(self) -> None:
        endings = [ending for server in self.servers.values() if (ending := server.reap())]
        for ending in endings:
            _tell(ending)
        if endings:
            self._save_if_possible()

    def _restart(self) -> None:
        for server in self.servers.values():
            if server.due is None or server.due > time.monotonic():
                continue
            try:
                server.restart()
            except (OSError, subprocess.SubprocessError) as error:
                _tell(f"{server.name} cannot be started: {error}")
            self._save_if_possible()

    def _until_next_restart(self) -> float | None:
        times = [server.due for server in self.servers.values() if server.due is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _end(self) -> None:
        """Stop all servers in the reverse order of their start, as each may need the earlier
        ones.
        """
        self.ending = True
        self._save_if_possible()
        for server in reversed(self.servers.values()):
            server.stop()
        self._save_if_possible()

    def _save(self) -> None:
        pid = os.getpid()
        record: process_list.Record = {
            "supervisor": {
                "pid": pid,
                "started": process_list.started(pid),
                "stopping": self.ending,
            },
            "servers": {name: server.record() for name, server in self.servers.items()},
        }
        process_list.write(self.folder, record)

    def _save_if_possible(self) -> None:
        """Save the record. A full disk, or a folder that someone removed, is no reason to
        abandon the servers.
        """
        try:
            self._save()
        except OSError as error:
            _tell(f"{process_list.FILE} cannot be written: {error}")


def _server(*, probe: dict[str, Any] | None = None, **fields: Any) -> Server:
    return Server(**fields, probe=Probe(**probe) if probe else None)


def _listen(name: str) -> socket.socket:
    """Listen in the working folder, as a socket's path has at most about a hundred characters."""
    Path(name).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    listener.setblocking(False)
    return listener


def _leave_standard_streams() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.close(null)


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{texts.now()} {text}\n".encode())


def main() -> None:
    """Run for the folder in the argument."""
    folder = Path(sys.argv[1]).absolute()
    os.chdir(folder)
    os.umask(0o077)
    _Supervisor(folder).run()


if __name__ == "__main__":
    main()

"""Compiles policies in a process of its own, so that no OPA that decides is involved: the program
`opa`, with limits of time and memory.

Measured: 63 modules take 0.25 s and 45 MB. Of texts with 200,000 characters, 4,300 rules take 0.4 s
and 40 MB more, 6,000 nested `else` 3.3 s, and 60,000 nested brackets 110 MB before OPA gives up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fairlead.common.errors import FairleadError
from fairlead.opa.api import PACKAGE_QUERY, RULES_QUERY

MEMORY = 256
"""The most MiB that the program may use; the sidecar's container has room for them
(integration/deploy/sidecars/sync.yaml.j2)."""
WITHIN = 10.0
"""Seconds for all that one policy needs."""
_METADATA = re.compile(r"#([^\S\n]*)METADATA")
_CAPABILITIES: dict[Path, str] = {}
"""By program, as they do not change while it runs."""
_NICE = 5  # OPA and the sidecar go first


class Parser(Protocol):
    """What says which package and rules a text defines, as fairlead.opa.api.OpaApi does."""

    def package(self, text: str) -> list[str] | None:
        """The parts of its package, without "data"; None if it cannot be parsed."""

    def rules(self, text: str) -> list[list[Any]] | None:
        """The path of each rule, from "data" on; None if it cannot be parsed."""


class TooCostly(FairleadError):
    """OPA did not compile a text within the limits."""


class Compiler:
    """A Parser that also compiles, for one policy. Its time starts with its creation.

    All methods raise TooCostly if the limits do not suffice, and FairleadError if the program
    cannot run.
    """

    def __init__(self, program: Path, *, memory: int = MEMORY, timeout: float = WITHIN) -> None:
        """`program` is the file of `opa`, `memory` in MiB, `timeout` in seconds."""
        self._program, self._memory, self._within = program, memory, timeout
        self._end = time.monotonic() + timeout

    def errors(self, modules: Mapping[str, str]) -> list[dict[str, Any]]:
        """Why the modules, id -> Rego, do not compile together, in the form of OPA's API: {code,
        message, location: {file, row, col}}. A file is the id of its module.
        """
        ids = list(modules)
        with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
            for number, id_ in enumerate(ids):
                # An OPA that loads a policy does not read METADATA either.
                text = _METADATA.sub(r"#\1metadata", modules[id_])
                Path(folder, f"{number}.rego").write_text(text, encoding="utf-8")
            capabilities = Path(folder, "capabilities")
            capabilities.write_text(self._offline(), encoding="utf-8")
            status, printed = self._run(
                ["check", "--format=json", f"--capabilities={capabilities}", folder]
            )
            if status == 0:
                return []
            file = re.compile(re.escape(f"{folder}/") + r"(\d+)\.rego")
        output = file.sub(lambda match: json.dumps(ids[int(match[1])])[1:-1], printed)
        errors = _json(output).get("errors")
        if not isinstance(errors, list) or not errors:
            raise FairleadError(f"opa check ended with {status} and no errors")
        return errors

    def package(self, text: str) -> list[str] | None:
        path = self._value(PACKAGE_QUERY, "path", text)
        return [str(part) for part in path[1:]] if isinstance(path, list) else None

    def rules(self, text: str) -> list[list[Any]] | None:
        paths = self._value(RULES_QUERY, "paths", text)
        return paths if isinstance(paths, list) and paths else None

    def _offline(self) -> str:
        """All capabilities of the program but the network: METADATA can name a schema by its URL,
        which `opa check` fetches.
        """
        if self._program not in _CAPABILITIES:
            status, printed = self._run(["capabilities", "--current"])
            if status:
                raise FairleadError(f"opa capabilities ended with {status}: {printed[:200]}")
            _CAPABILITIES[self._program] = json.dumps({**_json(printed), "allow_net": []})
        return _CAPABILITIES[self._program]

    def _value(self, query: str, name: str, text: str) -> Any:
        """The value of the variable `name` in the answer to the query; None if there is none."""
        arguments = ["eval", "--format=json", "--stdin-input", query]
        status, printed = self._run(arguments, json.dumps(text))
        match _json(printed).get("result") if status == 0 else None:
            case [{"bindings": {**bindings}}, *_]:
                return bindings.get(name)
        return None

    def _run(self, arguments: Sequence[str], input_: str = "") -> tuple[int, str]:
        """The exit status of the program, and what it printed: to stderr, if it failed."""
        # No variable of this process may change what OPA does.
        environment = {"HOME": "/", "GOMEMLIMIT": f"{self._memory * 3 // 4}MiB", "GOMAXPROCS": "1"}
        try:
            process = subprocess.Popen(
                [self._program, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise FairleadError(
                f"{self._program} cannot be started ({error.strerror}): use an image of Fairlead "
                "that has it"
            ) from error
        with process:
            _limit(process.pid, self._memory * 1024 * 1024)
            try:
                printed, errors = process.communicate(
                    input_, max(0.1, self._end - time.monotonic())
                )
            except subprocess.TimeoutExpired:
                process.kill()
                raise TooCostly(f"OPA does not compile it within {self._within:g} s") from None
        if process.returncode < 0 or "out of memory" in errors or "cannot allocate" in errors:
            raise TooCostly(f"OPA does not compile it within {self._memory} MiB of memory")
        return process.returncode, errors if process.returncode else printed


def _limit(pid: int, size: int) -> None:
    """Limit the memory (bytes) of a process that has just started, and its share of processors."""
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
        if sys.platform == "linux":
            # Not the address space, of which Go reserves much more than it uses.
            resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise FairleadError(f"opa answers with something else than an object: {text[:200]!r}")
    return value

"""An environment with the real `kind` and a fake Docker engine (fake_docker.py), for tests of KIND
clusters."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from fairlead.common import paths, waiting
from fairlead.programs import toolchain

NODE_IMAGE = "nodes:1"
IMAGES = {"OPA_IMAGE": "opa:1", "KUBE_MGMT_IMAGE": "kube-mgmt:1", "FAIRLEAD_IMAGE": "sync:1"}


class World:
    """The engine's folder, the environment that selects it, and a name that no other cluster
    has.
    """

    def __init__(self, folder: Path) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self.engine = folder / "engine"
        self.bin = folder / "bin"
        for each in (self.engine, self.bin):
            each.mkdir()
        self.name = f"test-{uuid.uuid4().hex[:10]}"
        self.state = paths.state(f"kind-{self.name}")
        docker = self.bin / "docker"
        docker.write_text(
            f"#!{sys.executable} -IS\n{Path(__file__).with_name('fake_docker.py').read_text()}"
        )
        docker.chmod(0o755)
        kind = toolchain.ensure(["kind"])["kind"]
        self.environment = {
            "FAKE_DOCKER": str(self.engine),
            # kind is reached by its folder, too, so that it is found where nothing else is.
            "PATH": f"{self.bin}:{kind.parent}:{os.environ['PATH']}",
            "KIND_CLUSTER_NAME": self.name,
            "KIND_NODE_IMAGE": NODE_IMAGE,
            "KIND_CONFIG": "",
            "IMAGE_PULL_POLICY": "",
            **IMAGES,
        }
        self.set("images", NODE_IMAGE)

    def set(self, what: str, *lines: str) -> None:
        """Write these lines into a file of the engine; see fake_docker.py."""
        (self.engine / what).write_text("".join(f"{line}\n" for line in lines))

    def lines(self, what: str) -> list[str]:
        path = self.engine / what
        return path.read_text().splitlines() if path.exists() else []

    def add_containers(self, *roles: str) -> None:
        """Create containers of a cluster with the name, like those of another program or a killed
        one.
        """
        label = "io.x-k8s.kind.cluster"
        made = {
            f"{self.name}-{role}": {
                "id": uuid.uuid4().hex,
                "labels": {label: self.name, "io.x-k8s.kind.role": role},
            }
            for role in roles
        }
        self.set("containers", json.dumps(made))

    def containers(self) -> list[str]:
        lines = self.lines("containers")
        return sorted(json.loads(lines[0])) if lines else []

    def hangs(self) -> list[int]:
        """The pids of the hung calls of `docker run`, once there is one for each of three nodes."""
        waiting.until(
            lambda: len(self.lines("hangs")) == 3, deadline=60, what="kind makes three nodes"
        )
        return [int(line) for line in self.lines("hangs")]

    def calls(self, *command: str) -> list[list[str]]:
        """Every call of docker with these first arguments."""
        calls: list[list[str]] = [json.loads(line) for line in self.lines("log")]
        return [call for call in calls if call[: len(command)] == list(command)]

    def fairlead(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(arguments),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(arguments),
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def command(self, arguments: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "fairlead", *arguments]

    def close(self) -> None:
        """Stop and remove what a failed test left."""
        for process in self._started:
            process.kill()  # what it started ends with it
            process.wait()
            if process.stderr:
                process.stderr.close()
        shutil.rmtree(self.state, ignore_errors=True)

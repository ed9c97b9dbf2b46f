"""A `docker` whose engine is a folder: what it has, what it can pull, and containers that hold no
node but answer kind.

Its messages are those of Docker's own program. FAKE_DOCKER is the folder; in it lie, each where it
matters: `engine` (stopped or denied), `pid` (that of every container of a pod), `images` and
`registry` (a name a line), `labels` (those of the image that was built last), `run` (fail or hang),
`admin.conf` (what every control plane has as its own), `endpoint` (host:port of its API server),
`kubeadm.<node>` (what kind configures a node by), and `log`, what this was called with.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["FAKE_DOCKER"])
SOCKET = "unix:///var/run/docker.sock"
ENGINE = {
    "stopped": f"Cannot connect to the Docker daemon at {SOCKET}. Is the docker daemon running?",
    "denied": f"permission denied while trying to connect to the Docker daemon socket at {SOCKET}: "
    "Get "
    '"http://%2Fvar%2Frun%2Fdocker.sock/v1.50/version": dial unix /var/run/docker.sock: connect: '
    "permission denied",
}
Containers = dict[str, dict[str, Any]]


def lines(name: str) -> list[str]:
    path = FOLDER / name
    return path.read_text().splitlines() if path.exists() else []


@contextmanager
def containers() -> Iterator[Containers]:
    """All containers, name -> {id, labels}. Locked, because kind runs several of these processes at
    a time.
    """
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = FOLDER / "containers"
        stored: Containers = json.loads(path.read_text()) if path.exists() else {}
        yield stored
        path.write_text(json.dumps(stored))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def fail(text: str) -> None:
    sys.exit(text)


def values(arguments: list[str], *flags: str) -> list[str]:
    """The values of these flags, given as `--flag value` or `--flag=value`."""
    after = [value for flag, value in pairwise(arguments) if flag in flags]
    return after + [
        a.partition("=")[2] for a in arguments if a.partition("=")[0] in flags and "=" in a
    ]


def ps(arguments: list[str]) -> None:
    template = (values(arguments, "--format") or [""])[0]
    with containers() as stored:
        for name, container in stored.items():
            labels = container["labels"]
            filters = [
                value.removeprefix("label=").partition("=")
                for value in values(arguments, "--filter")
            ]
            if all(key in labels and value in ("", labels[key]) for key, _, value in filters):
                label = re.search(r'\.Label "([^"]+)"', template)
                say(labels[label[1]] if label else name if "Names" in template else container["id"])


def run(arguments: list[str]) -> None:
    with containers() as stored:
        labels = dict(value.split("=", 1) for value in values(arguments, "--label"))
        stored[values(arguments, "--name")[0]] = {"id": os.urandom(16).hex(), "labels": labels}
    if lines("run") == ["fail"]:
        fail("docker: Error response from daemon: no space left on device: unknown")
    if lines("run") == ["hang"]:
        with (FOLDER / "hangs").open("a") as hangs:
            hangs.write(f"{os.getpid()}\n")
        time.sleep(600)


def inspect(arguments: list[str]) -> None:
    if "--type=image" in arguments or "image" in arguments:
        if arguments[-1] not in lines("images"):
            fail(
                f"Error response from daemon: no such image: {arguments[-1]}: No such image: "
                f"{arguments[-1]}"
            )
        if labelled := re.search(r'\.Labels "([^"]+)"', " ".join(arguments)):
            say(json.loads((lines("labels") or ["{}"])[-1]).get(labelled[1], ""))
            return
        if "{{.Size}}" in arguments:
            say("90000000")
            return
        say(f"sha256:{arguments[-1]}" if values(arguments, "-f", "--format") else "[{}]")
        return
    template = (values(arguments, "--format", "-f") or [""])[0]
    with containers() as stored:
        container = stored[arguments[-1]]
    if "kind.role" in template:
        say(container["labels"]["io.x-k8s.kind.role"])
    elif "NetworkSettings.Ports" in template:
        say("\t".join(lines("endpoint")[0].split(":")))
    elif "desktop" in template:
        say("")
    elif "IPAddress" in template:
        say("10.0.0.2,")
    else:
        say("{}")


def execute(arguments: list[str]) -> None:
    command = " ".join(arguments)
    if command.endswith("cp /dev/stdin /kind/kubeadm.conf"):
        (FOLDER / f"kubeadm.{arguments[-4]}").write_text(sys.stdin.read())
        return
    if "cat /kind/version" in command:
        say("v1.36.4")
    elif "cat /etc/kubernetes/admin.conf" in command:
        if not lines("admin.conf"):
            fail("cat: /etc/kubernetes/admin.conf: No such file or directory")
        say((FOLDER / "admin.conf").read_text())
    elif "cat /kind/manifests/default-cni.yaml" in command:
        say("kind: List")
    elif "get nodes" in command:
        say("'True'")
    elif "crictl inspect" in command:
        say(json.dumps({"info": {"pid": int((lines("pid") or ["0"])[0])}}))
    elif "/v3/kv/range" in command:
        say(json.dumps({"header": {"revision": "42"}}))
    elif "/v3/kv/compaction" in command:
        say("{}")
    elif "containerd config dump" in command:
        say('version = 3\n[plugins."io.containerd.cri.v1.images"]\nsnapshotter = "overlayfs"')


def main(arguments: list[str]) -> None:
    with (FOLDER / "log").open("a") as log:
        log.write(json.dumps(arguments) + "\n")
    if arguments[0] in ("-v", "--version"):
        say("Docker version 28.2.2, build e6534b4")
        return
    for state in lines("engine"):
        fail(ENGINE[state])
    match arguments:
        case ["version", *_]:
            say("28.2.2")
        case ["info", *rest]:
            say(
                json.dumps({"CgroupVersion": "2", "SecurityOptions": []})
                if "{{json .}}" in rest
                else "overlay2"
            )
        case ["ps", *rest]:
            ps(rest)
        case ["run", *rest]:
            run(rest)
        case ["rm", *rest]:
            with containers() as stored:
                for name in rest:
                    stored.pop(name, None)
        case ["inspect", *rest] | ["image", "inspect", *rest]:
            inspect([*(["image"] if arguments[0] == "image" else []), *rest])
        case ["pull", *rest]:
            if rest[-1] not in lines("registry"):
                fail(
                    f"Error response from daemon: pull access denied for {rest[-1]}, repository "
                    "does not exist"
                )
            with (FOLDER / "images").open("a") as images:
                images.write(rest[-1] + "\n")
        case ["build", *rest]:
            with (FOLDER / "images").open("a") as images:
                images.write(values(rest, "--tag", "-t")[0] + "\n")
            labels = dict(value.split("=", 1) for value in values(rest, "--label"))
            (FOLDER / "labels").write_text(json.dumps(labels) + "\n")
        case ["logs", *_]:
            say("Reached target Multi-User System.")
        case ["exec", *rest]:
            execute(rest)
        case ["save", *rest]:
            Path(values(rest, "-o")[0]).write_text("an archive")


main(sys.argv[1:])

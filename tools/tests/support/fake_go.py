"""A fake `go` for PATH that compiles nothing. FAKE_GO is the folder that controls and logs it."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

folder = Path(os.environ["FAKE_GO"])
mode = (folder / "mode").read_text()


def build(arguments: list[str]) -> int:
    target = arguments[arguments.index("-o") + 1]
    packages = arguments[arguments.index("-o") + 2 :]
    if mode == "hang":
        compiler = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        for package in packages:
            place(package, target, "half of it")
        (folder / "pids").write_text(f"{os.getpid()} {compiler.pid}")
        compiler.wait()
    if mode.startswith("fail "):
        sys.stderr.write(f"some/package\n# some/package\n{mode.removeprefix('fail ')}\n")
        return 1
    if mode == "slow":
        started = folder / "started"
        started.touch()
        while not (folder / "go on").exists():
            time.sleep(0.01)
    says = json.loads((folder / "says").read_text())
    for package in packages:
        sys.stderr.write(f"some/dependency\n{package}\n")
        name = named(package) if target.endswith("/") else Path(target).name
        place(package, target, f"#!/bin/sh\necho '{says[name]}'\n")
    return 0


def place(package: str, target: str, text: str) -> None:
    path = Path(target) / named(package) if target.endswith("/") else Path(target)
    path.write_text(text)
    path.chmod(0o755)


def named(package: str) -> str:
    """The program of a package: the last part of its path that is not a major version."""
    return next(part for part in reversed(package.split("/")) if not re.fullmatch(r"v\d+", part))


with (folder / "log").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\n")
if sys.argv[1] == "version":
    print(f"go version go{(folder / 'version').read_text()} linux/amd64")  # noqa: T201
elif sys.argv[1] == "list":
    sys.stderr.write("go: downloading example.com/module v1.0.0\n")
    print("stale\n\nstale")  # noqa: T201
else:
    sys.exit(build(sys.argv[1:]))

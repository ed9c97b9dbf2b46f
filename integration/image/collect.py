"""Collects the files of Fairlead's image into a folder: python3 collect.py SOURCES ENVIRONMENT
IMAGE.

SOURCES holds the package fairlead, ENVIRONMENT is a virtual environment with what it imports. Each
file comes to the path that it has here, so that the folder can be the root of a container.
"""

from __future__ import annotations

import compileall
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

ENTRY = (
    "fairlead.__main__",
    *(f"fairlead.cli.processes.{command}" for command in ("sync", "controller", "serve")),
)
# What `serve` imports only for settings from a file.
LEFT_OUT = ("fairlead.cli.options", "fairlead.clusters.registry")
# Of the standard library: its tests, what has a screen, what builds and installs packages, and
# databases.
UNUSED = (
    *(
        "config-*",
        "dist-packages",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "test",
        "turtledemo",
    ),
    *("*curses*", "*tkinter*", "readline.*", "*dbm*", "*sqlite3*", "nis.*"),
)
# Of the environment: the types of each API group, which sync does without and which would be half
# of the image.
UNUSED_PACKAGES = (
    "kubernetes/aio",
    "kubernetes/client/api",
    "kubernetes/client/models/v[0-9]*.py",
    "[!j]*/tests",  # jinja2.tests is not a test
    "jsonschema/tests",
)
# What modules read beside their code.
DATA = ("fairlead/deployment/review_limits.yaml",)
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def main(sources: Path, environment: Path, image: Path) -> None:
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}, scheme="venv"))
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(environment, image / environment.relative_to("/"), symlinks=True)
    shutil.copytree(
        library, image / library.relative_to("/"), ignore=shutil.ignore_patterns(*UNUSED)
    )
    python = Path(sys.executable).resolve()
    copy(python, image)
    copy(CERTIFICATES, image)
    # The environment names the interpreter by this one.
    (image / "usr/bin/python3").symlink_to(python.name)
    for script in (image / environment.relative_to("/") / "bin").iterdir():
        if not script.is_symlink():  # the interpreter is one
            script.unlink()
    target = image / packages.relative_to("/")
    for pattern in UNUSED_PACKAGES:
        for unused in target.glob(pattern):
            shutil.rmtree(unused) if unused.is_dir() else unused.unlink()
    for module in (*own_modules(sources), *map(Path, DATA)):
        (target / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(sources / module, target / module)
    for name in ("lib", "lib64"):  # as on Debian; the loader's path stands in each program
        (image / "usr" / name).mkdir(parents=True, exist_ok=True)
        (image / name).symlink_to(f"usr/{name}")
    for path in shared_libraries([python, *image.rglob("*.so*")], image):
        copy(path, image)
    (image / "etc/passwd").write_text("fairlead:x:1000:1000:fairlead:/:/nonexistent\n")
    (image / "etc/group").write_text("fairlead:x:1000:\n")
    (image / "tmp").mkdir(mode=0o1777)
    # Compiled here, as a container cannot write; what is in an image does not change, so nothing is
    # compared with it.
    compileall.compile_dir(
        image,
        quiet=1,
        stripdir=str(image),
        force=True,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )


def own_modules(sources: Path) -> list[Path]:
    """The files, below `sources`, of all modules of fairlead that the image's commands import."""
    finder = ModuleFinder(path=[str(sources)], excludes=LEFT_OUT)
    for name in ENTRY:
        finder.import_hook(name)
    modules: dict[str, Any] = finder.modules
    files = (
        module.__file__ for name, module in modules.items() if name.split(".")[0] == "fairlead"
    )
    return sorted(Path(file).relative_to(sources) for file in files)


def shared_libraries(binaries: list[Path], image: Path) -> set[Path]:
    """What the loader takes from this machine for `binaries`; what packages bring along is in
    `image` already.
    """
    libraries = set()
    for binary in binaries:
        output = subprocess.run(
            ["/usr/bin/ldd", binary], capture_output=True, text=True, check=True
        ).stdout
        libraries |= {
            Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(", output, re.MULTILINE)
        }
    return {path for path in libraries if not path.is_relative_to(image)}


def copy(path: Path, image: Path) -> None:
    """Copy a file to its own path below `image`, under the name by which it is asked for."""
    folder = path.parent.resolve().relative_to("/")
    (image / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(path, image / folder / path.name)


if __name__ == "__main__":
    main(*(Path(argument).resolve() for argument in sys.argv[1:]))

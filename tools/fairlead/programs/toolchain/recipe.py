"""How a module is built: versions from its go.mod, checksums from its go.sum, and flags."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import fairlead
from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.programs.toolchain.programs import PROGRAMS, Program

# Linker variables for the version, without which kube-apiserver would report v0.0.0-master.
_STAMPS = {
    "gatekeeper": ("github.com/open-policy-agent/gatekeeper/v3/pkg/version.Version={version}",),
    "kyverno": ("github.com/kyverno/kyverno/pkg/version.BuildVersion=v{version}",),
    "kubernetes": (
        "k8s.io/component-base/version.gitVersion=v{version}",
        "k8s.io/component-base/version.gitMajor={major}",
        "k8s.io/component-base/version.gitMinor={minor}",
        "k8s.io/client-go/pkg/version.gitVersion=v{version}",
    ),
}


@dataclass(frozen=True)
class Recipe:
    """How a module's programs are built. Recipes with the same key build the same programs."""

    module: str
    source: Path  # the folder of go.mod and go.sum
    version: str  # without the leading v
    go: tuple[int, ...]  # the oldest Go that can build it
    flags: tuple[str, ...]
    key: str

    @property
    def home(self) -> Path:
        """The module's folder in the cache, with a lock, temporary folders, and a folder for each
        key.
        """
        return (paths.cache() / "tools" / self.module).absolute()

    def built(self, program: Program) -> Path:
        """Where the program is after its build; a file there is complete."""
        return self.home / self.key / program.name


def folder() -> Path:
    """The folder of all modules. Raises UsageError if there is no checkout."""
    return paths.root() / "tools" / "toolchain"


def load(module: str) -> Recipe:
    """The recipe of `module`. Raises InputError if its go.mod or go.sum does not pin it."""
    return of(next(program for program in PROGRAMS if program.module == module))


def of(program: Program) -> Recipe:
    """The recipe of the program's module. Raises InputError if its go.mod or go.sum does not pin
    it.
    """
    source = paths.root() / program.own if program.own else folder() / program.module
    text = yaml_files.read_text(source / "go.mod")
    version = fairlead.__version__ if program.own else _required(text, program.package)
    go = re.search(r"^go (\d[\d.]*)$", text, re.MULTILINE)
    if version is None or go is None:
        missing = f"require line for {program.package}" if version is None else "go line"
        raise InputError(source / "go.mod", f"has no {missing}: restore it from git")
    sums = _sources(source) if program.own else yaml_files.read_text(source / "go.sum")
    flags = _flags(program, version)
    built_for = f"{sys.platform}/{platform.machine()}"  # machines may share a home folder
    digest = hashlib.sha256("\0".join((text, sums, *flags, built_for)).encode()).hexdigest()
    return Recipe(
        program.module, source, version, numbers(go[1]), flags, f"{version}-{digest[:10]}"
    )


def pinned(program: Program) -> tuple[str, str]:
    """The Go module that holds the program's package, and its version without the leading v. Raises
    InputError if its go.mod does not pin it.
    """
    source = folder() / program.module / "go.mod"
    holding = _holding(yaml_files.read_text(source), program.package)
    if holding is None:
        raise InputError(source, f"has no require line for {program.package}: restore it from git")
    return holding


def numbers(version: str) -> tuple[int, ...]:
    """A dotted version as numbers that compare: 1.26.0 is (1, 26, 0)."""
    return tuple(int(part) for part in version.split(".") if part)


def _flags(program: Program, version: str) -> tuple[str, ...]:
    major, minor = version.split(".")[:2]
    variables = ("main.version={version}",) if program.own else _STAMPS.get(program.module, ())
    stamps = (stamp.format(version=version, major=major, minor=minor) for stamp in variables)
    # readonly: a build that go.mod or go.sum does not cover fails instead of changing them.
    return (
        "-mod=readonly",
        "-trimpath",
        "-ldflags",
        " ".join(("-s", "-w", *(f"-X {stamp}" for stamp in stamps))),
    )


def _sources(source: Path) -> str:
    """The sources of a module of Fairlead's own, and its go.sum, if it requires modules."""
    sources = [path for path in sorted(source.glob("*.go")) if not path.match("*_test.go")]
    return "\0".join(yaml_files.read_text(path) for path in (*sources, *source.glob("go.sum")))


def _required(text: str, package: str) -> str | None:
    """The version of the required module that holds `package`."""
    holding = _holding(text, package)
    return holding[1] if holding else None


def _holding(text: str, package: str) -> tuple[str, str] | None:
    """The required module that holds `package`, the one with the longest path, and its version."""
    required = re.findall(r"^(?:require\s+|\s+)(\S+) v(\d\S+)(?: //.*)?$", text, re.MULTILINE)
    holding = [
        (path, version) for path, version in required if f"{package}/".startswith(f"{path}/")
    ]
    return max(holding, key=lambda entry: len(entry[0]), default=None)

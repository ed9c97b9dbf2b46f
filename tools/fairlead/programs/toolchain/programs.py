"""The list of programs. To add one, write an entry here and a module with its pins under
tools/toolchain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairlead.common.errors import UsageError


@dataclass(frozen=True)
class Program:
    """A program, the Go package it is built from, and how it reports its version."""

    name: str
    # The folder whose go.mod and go.sum pin it: below tools/toolchain, or below tools if `own`.
    module: str
    package: str
    arguments: tuple[str, ...]  # they make it print its version and exit
    # How a line of that output begins, up to the next space or the line's end. Empty for a program
    # that cannot say its version: it is built, whatever PATH has.
    says: str
    own: bool = False  # Fairlead has its source, which changes between versions
    # Only checks run it: it is compared with Fairlead, or stands for a server of users.
    peer: bool = False


def _kubernetes(
    name: str, arguments: tuple[str, ...] = ("--version",), says: str = "Kubernetes v{version}"
) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", arguments, says)


PROXY = "fairlead-proxy"
"""The proxy before OPA (tools/proxy)."""
MATCHER = "fairlead-matcher"
"""What says which webhooks API servers call and what policies decide (tools/matcher)."""
LOAD = "fairlead-load"
"""What sends the requests that `make bench` measures (tools/load)."""

PROGRAMS = (
    Program("opa", "opa", "github.com/open-policy-agent/opa", ("version",), "Version: {version}"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", ("--version",), "etcd Version: {version}"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", ("version", "--client"), "Client Version: v{version}"),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", ("--version",), "kwok version v{version}"),
    Program("kind", "kind", "sigs.k8s.io/kind", ("version",), "kind v{version}"),
    Program(
        "gatekeeper",
        "gatekeeper",
        "github.com/open-policy-agent/gatekeeper/v3",
        ("--help",),
        "",
        peer=True,
    ),
    Program(
        "gator",
        "gatekeeper",
        "github.com/open-policy-agent/gatekeeper/v3/cmd/gator",
        ("--version",),
        "gator version {version}",
        peer=True,
    ),
    # The admission controller. The other one is the CLI, which is often called `kyverno`, too.
    Program(
        "kyverno", "kyverno", "github.com/kyverno/kyverno/cmd/kyverno", ("--help",), "", peer=True
    ),
    Program(
        "kubectl-kyverno",
        "kyverno",
        "github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno",
        ("version",),
        "Version: v{version}",
        peer=True,
    ),
    Program(PROXY, "proxy", ".", ("--version",), f"{PROXY} {{version}}", own=True),
    Program(MATCHER, "matcher", ".", ("--version",), f"{MATCHER} {{version}}", own=True),
    Program(LOAD, "load", ".", ("--version",), f"{LOAD} {{version}}", own=True),
)
NAMES = tuple(program.name for program in PROGRAMS)
OWN = tuple(program.name for program in PROGRAMS if program.own)
"""The programs whose source is in this checkout."""
PEERS = tuple(program.name for program in PROGRAMS if program.peer)
"""The programs that only checks run."""


def select(names: Iterable[str]) -> list[Program]:
    """The programs with these names, each once, in the order of PROGRAMS. Raises UsageError for an
    unknown name.
    """
    selection = set(names)
    unknown = sorted(selection.difference(NAMES))
    if unknown:
        raise UsageError(f"no program is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [program for program in PROGRAMS if program.name in selection]

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
    module: str  # the folder below tools/toolchain whose go.mod and go.sum pin it
    package: str
    arguments: tuple[str, ...]  # they make it print its version and exit
    # How a line of that output begins, up to the next space or the line's end. Empty for a program
    # that cannot say its version: it is built, whatever PATH has.
    says: str
    own: str = ""  # the folder of the checkout that has its source, if it is Fairlead's own
    # Only checks run it: it is compared with Fairlead, stands for a server of users, or reads code.
    peer: bool = False


def _kubernetes(
    name: str, arguments: tuple[str, ...] = ("--version",), says: str = "Kubernetes v{version}"
) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", arguments, says)


def own(name: str, folder: str) -> Program:
    """A program of Fairlead's own, whose source is in this folder of the checkout."""
    module = folder.rpartition("/")[2]
    return Program(name, module, ".", ("--version",), f"{name} {{version}}", own=folder)


FAIRLEAD_OPA = "fairlead-opa"
"""OPA with the plugin that answers API servers (tools/plugin)."""
MATCHER = "fairlead-matcher"
"""What says which webhooks API servers call and what policies decide (tools/matcher)."""

KUSTOMIZE = "kustomize"
REGAL = "regal"

PROGRAMS = (
    Program("opa", "opa", "github.com/open-policy-agent/opa", ("version",), "Version: {version}"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", ("--version",), "etcd Version: {version}"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl", ("version", "--client"), "Client Version: v{version}"),
    Program(
        KUSTOMIZE, "kustomize", "sigs.k8s.io/kustomize/kustomize/v5", ("version",), "v{version}"
    ),
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
    # The linter of policies in Rego. Built so, it says "Version: unknown".
    Program(REGAL, "regal", "github.com/open-policy-agent/regal", ("version",), "", peer=True),
    own(FAIRLEAD_OPA, "tools/plugin"),
    own(MATCHER, "tools/matcher"),
)
NAMES = tuple(program.name for program in PROGRAMS)
OWN = tuple(program.name for program in PROGRAMS if program.own)
"""The programs whose source is in this checkout."""
PEERS = tuple(program.name for program in PROGRAMS if program.peer)
"""The programs that only checks run."""


def select(programs: Iterable[str | Program]) -> list[Program]:
    """The programs with these names, each once, in the order of PROGRAMS, and after them those that
    are not in the list. Raises UsageError for an unknown name.
    """
    requested = list(programs)
    unlisted = [program for program in requested if isinstance(program, Program)]
    names = {program for program in requested if isinstance(program, str)}
    unknown = sorted(names.difference(NAMES))
    if unknown:
        raise UsageError(f"no program is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return [*(program for program in PROGRAMS if program.name in names), *unlisted]

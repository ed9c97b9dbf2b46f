"""Finds policies that OPA holds and no decision uses, by what its rules depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.opa.module_names import ModuleName
from fairlead.policy.revision import PACKAGE
from fairlead.settings.services import SERVICES

_SILENT = Progress()

ENTRY_POINTS = (
    "data.system.main",
    "data.system.health.ready",
    "data.system.authz.allow",
    *(f"data.{service.package}" for service in SERVICES),
)
"""What OPA itself asks for (the decision, its readiness, and who may use its API), and what its
callers ask for by its path."""

Key = TypeVar("Key")


def unused(modules: Mapping[Key, str], progress: Progress = _SILENT) -> set[Key]:
    """The keys of the modules that no entry point depends on. A reference with a variable, such as
    `data.teams[name].deny`, counts as a use of all that it may mean.

    Raises BrokenPolicies or FairleadError if the modules do not compile together.
    """
    names = {_name(f"{number}.rego", key): key for number, key in enumerate(modules)}
    texts = {name: modules[key] for name, key in names.items()}
    used = cli.modules_used(texts, ENTRY_POINTS, progress)
    return {key for name, key in names.items() if name not in used}


def unused_packages(
    modules: Mapping[Key, str], present: Mapping[Key, str], progress: Progress = _SILENT
) -> list[str]:
    """The packages of `modules` that no entry point depends on, also not through the modules of
    `present`. Raises FairleadError if all of them do not compile together.
    """
    packages = {key: match[1] for key, text in modules.items() if (match := PACKAGE.search(text))}
    unused_keys = unused({**present, **modules}, progress)
    used_packages = {package for key, package in packages.items() if key not in unused_keys}
    return sorted({*packages.values()} - used_packages)


def _name(text: str, key: object) -> str:
    """The name of a module, which knows the file of its key, or of the end of its key."""
    last = key[-1] if isinstance(key, tuple) else key
    return last.renamed(text) if isinstance(last, ModuleName) else text

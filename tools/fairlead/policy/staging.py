"""Renames the packages of each revision, so that a push is atomic for the callers of OPA.

OPA's own API loads one module at a time, and kube-mgmt uses that. So a new revision is loaded
beside the old one, under packages `r_<revision>.*` that nothing uses yet. Then main.rego, whose
imports name these packages, is replaced, and so are the modules of services (see
fairlead.settings.services). Each answer therefore comes from one revision as a whole. The sidecar
loads new modules first, then changed ones, and removes old ones last.

Modules in packages by which OPA protects itself, such as its authz policy, are refused here, and so
are those that would hide data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.opa import cli, module_names
from fairlead.policy import data_places, joining, policy_files, python_code
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import PACKAGE
from fairlead.settings.services import SERVICES

_ENTRIES = ("system", *(service.root for service in SERVICES))
"""The packages that OPA itself or its callers query (the decision, health; services), which keep
their names."""
_DATA = (*data_places.ROOTS, ".".join(data_places.PLACEMENT))
OPAS_OWN = {"system.authz": policy_files.AUTHZ, "system.log": "fairlead-opa"}
"""Packages by which OPA protects itself, and where what they are for comes from."""
PYTHON = "python"
"""The engine whose code a cluster gets beside the modules."""
_UNNAMED = 12 * "0"
"""Stands for the revision in modules that decide how it is called."""


def stage(bundle: Bundle, progress: Progress) -> Bundle:
    """The bundle as it is deployed.

    Raises InputError as require_free_packages and if a module has no package, and BrokenPolicies or
    FairleadError if one cannot be parsed.
    """
    require_free_packages(bundle.modules, bundle.sources, progress)
    packages = {key: _package(key, text) for key, text in bundle.modules.items()}
    inner = {path for path in packages.values() if path.split(".")[0] not in _ENTRIES}
    # With a package go those below it, and OPA refuses to move these by themselves.
    outer = {path for path in inner if not any(path.startswith(f"{other}.") for other in inner)}
    moved = cli.move(bundle.modules, {path: f"r_{_UNNAMED}.{path}" for path in outer}, progress)
    joined = {
        **{key: text for key, text in moved.items() if packages[key] not in inner},
        **joining.join({key: text for key, text in moved.items() if packages[key] in inner}),
    }
    name = Bundle(joined).revision
    return Bundle(
        {
            f"{name}.{key}" if packages[key] in inner else key: text.replace(
                f"r_{_UNNAMED}.", f"r_{name}."
            )
            for key, text in joined.items()
        }
    )


def staged(policies: PolicySet, engine: str, progress: Progress) -> PolicySet:
    """The policies with the modules that a cluster of this engine gets: those of `stage`, and for
    `python` the code of the intents. Raises as `stage`, and python_code.MissingError.
    """
    bundle = stage(policies.bundle, progress)
    code = python_code.read(policies.active) if engine == PYTHON else {}
    return policies.with_bundle(Bundle({**bundle.modules, **code}))


def require_free_packages(
    modules: Mapping[str, str], sources: Mapping[str, Path], progress: Progress
) -> None:
    """Raises InputError if a module defines a part of a package by which OPA protects itself, or
    has a package that would hide data.

    OPA would merge the package and its file (see policy_files.FILE_MODULES): the module could let
    anyone in, or leave decisions out of the log. If a module has a package where data are, `opa
    refactor move` renames all references to them. `sources` has the file of each module, for the
    message.
    """
    for key, text in sorted(modules.items()):
        package = _package(key, text)
        for root in _DATA:
            if f"{package}.".startswith(f"{root}."):
                raise InputError(
                    sources.get(key, key),
                    f"is in package {package}, and would hide the data that Fairlead reads at "
                    f"data.{root}: choose another package",
                    line=_row_of_package(text),
                )
    for key, defined in sorted(cli.paths_of(modules, progress).items()):
        for package, whence in OPAS_OWN.items():
            parts = ["data", *package.split(".")]
            if any(path[: len(parts)] == parts for path in defined):
                raise InputError(
                    sources.get(key, key),
                    f"defines a part of package {package}, which is OPA's own and comes from "
                    f"{whence} alone: choose another package, or remove the file",
                    line=_row_of_package(modules[key]),
                )


def _row_of_package(text: str) -> int | None:
    match = PACKAGE.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def _package(key: str, text: str) -> str:
    match = PACKAGE.search(text)
    if not match:
        raise InputError(module_names.shown(key), "names no package: begin it with `package NAME`")
    return match[1]

"""Prints decisions on clusters as the objects by which other programs carry them out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from fairlead.cli import output as out
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.placement import argocd, karmada
from fairlead.placement.decisions import Result

KARMADA, ARGOCD = "karmada", "argocd"
FORMATS = (KARMADA, ARGOCD)

_DEFAULT = argocd.Place()


@dataclass(frozen=True)
class ArgoCd:
    """Where Argo CD finds the manifests, and where it has its objects."""

    source: argocd.Source
    place: argocd.Place


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for -o argocd. The command gets them as `argo_cd`, which is None for another
    format. Raises UsageError for options of another format, and for a missing one.
    """

    @click.option(
        "--source",
        metavar="URL//FOLDER?ref=REVISION",
        help="Where Argo CD finds the manifests; for -o argocd.",
    )
    @click.option(
        "--argocd-namespace",
        metavar="NAME",
        help=f"The namespace of Argo CD; for -o argocd.  [default: {_DEFAULT.namespace}]",
    )
    @click.option(
        "--argocd-project",
        metavar="NAME",
        help=f"The project of the Applications; for -o argocd.  [default: {_DEFAULT.project}]",
    )
    @functools.wraps(command)
    def with_argo_cd(*arguments: Any, **parameters: Any) -> Any:
        written = {
            option: parameters.pop(option.replace("-", "_"))
            for option in ("source", "argocd-namespace", "argocd-project")
        }
        argo_cd = _argo_cd(parameters["output"], written)
        return command(*arguments, argo_cd=argo_cd, **parameters)

    return with_argo_cd


def _argo_cd(output: str, written: dict[str, str | None]) -> ArgoCd | None:
    if output != ARGOCD:
        for option, value in written.items():
            if value is not None:
                raise UsageError(f"--{option} is for -o argocd: leave it out")
        return None
    if written["source"] is None:
        raise UsageError(
            "-o argocd needs to know where Argo CD finds the manifests: name the folder by "
            "--source URL//FOLDER?ref=REVISION"
        )
    return ArgoCd(
        argocd.Source.parse(written["source"]),
        argocd.Place(
            written["argocd-namespace"] or _DEFAULT.namespace,
            written["argocd-project"] or _DEFAULT.project,
        ),
    )


def emit(result: Result, argo_cd: ArgoCd | None) -> None:
    """Print the objects for Argo CD, or, without its options, for Karmada, as YAML, but none for
    what has errors. Raises InputError.
    """
    if argo_cd is None:
        objects = karmada.policies(result.placements)
    else:
        objects = argocd.application_sets(result.placements, argo_cd.source, argo_cd.place)
    if objects:
        out.line(manifests.to_yaml(objects).rstrip())

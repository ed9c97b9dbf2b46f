"""Prints decisions on clusters as the objects by which other programs carry them out."""

from __future__ import annotations

import click

from fairlead.cli import output as out
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.placement import argocd, karmada
from fairlead.placement.decisions import Result

KARMADA, ARGOCD = "karmada", "argocd"
FORMATS = (KARMADA, ARGOCD)

source = click.option(
    "--source",
    metavar="URL//FOLDER?ref=REVISION",
    help="Where Argo CD finds the manifests; for -o argocd.",
)


def checked(output: str, source: str | None) -> argocd.Source | None:
    """What `--source` says, for the format `output`. Raises UsageError if one lacks the other."""
    if output != ARGOCD and source is not None:
        raise UsageError("--source is for -o argocd: leave it out")
    if output == ARGOCD and source is None:
        raise UsageError(
            "-o argocd needs to know where Argo CD finds the manifests: name the folder by "
            "--source URL//FOLDER?ref=REVISION"
        )
    return argocd.Source.parse(source) if source is not None else None


def emit(result: Result, source: argocd.Source | None) -> None:
    """Print the objects for Argo CD, or, without a source, for Karmada, as YAML, but none for
    workloads with errors. Raises InputError.
    """
    if source is None:
        objects = karmada.policies(result.placements)
    else:
        objects = argocd.application_sets(result.placements, source)
    if objects:
        out.line(manifests.to_yaml(objects).rstrip())

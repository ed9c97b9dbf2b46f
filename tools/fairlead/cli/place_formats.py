"""Prints decisions on clusters as the objects by which other programs carry them out."""

from __future__ import annotations

import click

from fairlead.analysis.place import Result
from fairlead.cli import output as out
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.federation import argocd, karmada

KARMADA, ARGOCD = "karmada", "argocd"
FORMATS = (KARMADA, ARGOCD)

source = click.option(
    "--source",
    metavar="URL//FOLDER?ref=REVISION",
    help="Where Argo CD finds the manifests; for -o argocd.",
)


def emit(result: Result, output: str, source: str | None) -> None:
    """Print the objects, one of FORMATS, as YAML, but none for workloads with errors. Raises
    UsageError.
    """
    if output == ARGOCD and source is None:
        raise UsageError(
            "-o argocd needs to know where Argo CD finds the manifests: name the folder by "
            "--source URL//FOLDER?ref=REVISION"
        )
    if source is not None and output != ARGOCD:
        raise UsageError("--source is for -o argocd: leave it out")
    if source is None:
        objects = karmada.policies(result.placements)
    else:
        objects = argocd.application_sets(result.placements, argocd.Source.parse(source))
    if objects:
        out.line(manifests.to_yaml(objects).rstrip())

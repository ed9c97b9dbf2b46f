"""The CustomResourceDefinitions of Karmada and Argo CD for the objects by which they carry out
decisions. They come with the sources of both, which Go downloads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.kube import clients
from fairlead.programs import toolchain

_SOURCES = {
    "karmada": (
        "github.com/karmada-io/karmada",
        "v1.16.0",
        "charts/karmada/_crds/bases/policy",
        (
            "policy.karmada.io_propagationpolicies.yaml",
            "policy.karmada.io_clusterpropagationpolicies.yaml",
            "policy.karmada.io_overridepolicies.yaml",
        ),
    ),
    "argocd": (
        "github.com/argoproj/argo-cd/v3",
        "v3.3.19",
        "manifests/crds",
        ("applicationset-crd.yaml",),
    ),
}
NAMES = tuple(_SOURCES)
_SERVED = 60.0
"""Seconds within which an API server serves a new kind."""


def definitions(name: str, progress: Progress) -> list[dict[str, Any]]:
    """The definitions of `karmada` or `argocd`, from the checkout that the environment variable
    FAIRLEAD_KARMADA or FAIRLEAD_ARGOCD names, or else from the Go module. Raises FairleadError if
    that cannot be downloaded.
    """
    module, version, folder, file_names = _SOURCES[name]
    variable = f"FAIRLEAD_{name.upper()}"
    try:
        checkout = os.environ.get(variable)
        root = Path(checkout) if checkout else toolchain.released(module, version, progress)
    except FairleadError as error:
        raise FairleadError(f"{error}\nOr name a checkout by {variable}") from error
    # By libyaml: Argo CD's has more than a megabyte.
    return [
        yaml.load((root / folder / file_name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        for file_name in file_names
    ]


def install(objects: clients.Objects, crds: Iterable[dict[str, Any]]) -> None:
    """Apply the definitions; returns when the API server has established all of them. Raises
    FairleadError.
    """
    for crd in crds:
        objects.apply(crd)

        def is_established(crd: dict[str, Any] = crd) -> bool:
            live = objects.get(crd["apiVersion"], crd["kind"], crd["metadata"]["name"])
            conditions = ((live or {}).get("status") or {}).get("conditions") or ()
            return ("Established", "True") in {
                (condition["type"], condition["status"]) for condition in conditions
            }

        waiting.until(
            is_established,
            deadline=_SERVED,
            what=f"{crd['metadata']['name']} is established",
        )


def apply(objects: clients.Objects, manifests: Iterable[dict[str, Any]]) -> None:
    """Apply objects of kinds that were just defined. Raises FairleadError if the API server does
    not accept one.
    """
    for manifest in manifests:

        def is_applied(manifest: dict[str, Any] = manifest) -> bool:
            objects.apply(manifest)
            return True

        # An API server serves a new kind some time after it is established.
        waiting.until(
            is_applied, deadline=_SERVED, what=f"the API server accepts {manifest['kind']}"
        )

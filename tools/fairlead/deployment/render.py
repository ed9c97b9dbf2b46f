"""Renders the manifests for tools other than `fairlead deploy`: kubectl, or a GitOps controller."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, secrets_file, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.policy import bundles, staging
from fairlead.settings.models import Settings


@dataclass(frozen=True)
class Rendered:
    """Objects by the name of their file, in the order in which to apply them, and what people
    should know of them.
    """

    files: dict[str, list[dict[str, Any]]]
    notes: tuple[str, ...]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, in the order in which to apply them."""
        return [manifest for objects in self.files.values() for manifest in objects]


def render(
    settings: Settings,
    folder: Path | None = None,
    *,
    sidecar: str | None = None,
    secrets: Path | None = None,
    renew: bool = False,
    progress: Progress,
) -> Rendered:
    """All manifests, for a cluster that reaches OPA by its Service; kube-mgmt is the default
    sidecar.

    The policies are those of `folder`, or the project's. With `secrets` the two Secrets are in that
    file instead (see secrets_file): made once, read from then on, with `renew` made again.

    Raises UsageError where the settings suit no cluster of pods; InputError where the file cannot
    be used.
    """
    kept, files = plan(
        settings, folder, sidecar=sidecar, secrets=secrets, renew=renew, progress=progress
    )
    if kept is None:
        return Rendered(
            files, ("the Secrets hold a token and a certificate made for this output alone",)
        )
    news = kept.save(secrets_of(files))
    without = {
        name: [one for one in objects if one["kind"] != "Secret"] for name, objects in files.items()
    }
    return Rendered(without, (news,) if news else ())


def plan(
    settings: Settings,
    folder: Path | None,
    *,
    sidecar: str | None,
    secrets: Path | None,
    renew: bool,
    progress: Progress,
) -> tuple[secrets_file.SecretsFile | None, dict[str, list[dict[str, Any]]]]:
    """The file of credentials, where there is one, and all objects by file, Secrets included;
    writes nothing.

    Raises UsageError, InputError.
    """
    if renew and secrets is None:
        raise UsageError("--renew replaces what is kept in a file: name it with --secrets")
    if too_short := settings.certificates.too_short_for_kubelets():
        raise UsageError(too_short)
    kept = secrets_file.load(secrets, settings.certificates, renew=renew) if secrets else None
    bundle = staging.stage(bundles.bundle(settings, folder), progress)
    chosen = sidecars.SIDECARS[sidecar] if sidecar else sidecars.KUBE_MGMT
    credentials = kept.credentials if kept else Credentials.fresh(valid=settings.certificates.valid)
    return kept, manifests.by_file(settings, bundle, credentials, sidecar=chosen)


def secrets_of(files: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The Secrets among the objects."""
    return [one for objects in files.values() for one in objects if one["kind"] == "Secret"]

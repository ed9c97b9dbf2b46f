"""What `fairlead render` prints: the objects for kubectl or a GitOps controller to apply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.secrets_file import SecretsFile, load
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet


@dataclass(frozen=True)
class Rendered:
    """Objects by file, in the order in which to apply them, and notes for people."""

    files: dict[str, list[dict[str, Any]]]
    notes: tuple[str, ...]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, in the order in which to apply them."""
        return [manifest for objects in self.files.values() for manifest in objects]


def render(
    policies: PolicySet,
    *,
    sidecar: str | None = None,
    secrets: Path | None = None,
    renew: bool = False,
    progress: Progress,
) -> Rendered:
    """All objects, for a cluster that reaches OPA by its Service; sync is the default sidecar.

    With `secrets`, the Secrets are kept in that file instead (see secrets_file): the first call
    makes them, later calls read them, and `renew` replaces them.

    Raises UsageError if the settings do not suit a cluster of pods, and InputError if the file
    cannot be used.
    """
    secrets_file, files = render_files(
        policies,
        sidecar=sidecar,
        secrets=secrets,
        renew=renew,
        progress=progress,
    )
    if secrets_file is None:
        return Rendered(
            files, ("the Secrets hold a token and a certificate made for this output alone",)
        )
    note = secrets_file.save(secrets_of(files))
    without_secrets = {
        name: [manifest for manifest in objects if manifest["kind"] != "Secret"]
        for name, objects in files.items()
    }
    return Rendered(without_secrets, (note,) if note else ())


def render_files(
    policies: PolicySet,
    *,
    sidecar: str | None,
    secrets: Path | None,
    renew: bool,
    progress: Progress,
) -> tuple[SecretsFile | None, dict[str, list[dict[str, Any]]]]:
    """The file of credentials, if `secrets` names one, and all objects by file, Secrets included.

    Writes nothing. Raises UsageError, InputError.
    """
    settings = policies.settings
    if renew and secrets is None:
        raise UsageError("--renew replaces the credentials in a file: name it with --secrets")
    if too_short := settings.certificates.too_short_for_kubelets():
        raise UsageError(too_short)
    secrets_file = load(secrets, settings.certificates, renew=renew) if secrets else None
    component = sidecars.SIDECARS[sidecar] if sidecar else sidecars.DEFAULT
    staged = staging.staged(policies, component.engine, progress)
    credentials = (
        secrets_file.credentials
        if secrets_file
        else Credentials.fresh(valid=settings.certificates.valid)
    )
    credentials = credentials.opening(settings.scopes())
    return secrets_file, manifests.render_files(staged, credentials, sidecar=component)


def secrets_of(files: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The Secrets among the objects."""
    return [
        manifest
        for objects in files.values()
        for manifest in objects
        if manifest["kind"] == "Secret"
    ]

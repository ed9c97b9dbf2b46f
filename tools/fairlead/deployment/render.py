"""What `fairlead render` prints: the objects for kubectl or a GitOps controller to apply."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import controller, manifests, sidecars
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.secrets_file import SecretsFile, load
from fairlead.policy import policy_objects, staging
from fairlead.policy.policy_set import PolicySet

OBJECTS_FILE = "95-objects.yaml"
"""The file of the settings and policies, if they are objects."""


@dataclass(frozen=True)
class Rendered:
    """All objects by file, in the order in which to apply them, and the file that keeps the data of
    their Secrets, if one does.
    """

    files: dict[str, list[dict[str, Any]]]
    secrets_file: SecretsFile | None = None

    @property
    def objects(self) -> list[dict[str, Any]]:
        """All objects, in the order in which to apply them."""
        return [manifest for objects in self.files.values() for manifest in objects]

    @property
    def printed(self) -> list[dict[str, Any]]:
        """The objects to print: without the Secrets, if a file keeps them."""
        return [
            manifest
            for manifest in self.objects
            if self.secrets_file is None or manifest["kind"] != "Secret"
        ]

    def save(self) -> str | None:
        """Write the Secrets into their file. Returns a note for people on what became of them, None
        if nothing changed. Raises UsageError if the file cannot be written.
        """
        secrets = [manifest for manifest in self.objects if manifest["kind"] == "Secret"]
        if self.secrets_file:
            return self.secrets_file.save(secrets)
        return (
            "the Secrets hold a token and a certificate made for this output alone"
            if secrets
            else None
        )


def render_for_objects(policies: PolicySet) -> Rendered:
    """What the controller does not make of a deployment whose settings and policies are objects,
    and these objects. Raises UsageError for settings and policies that cannot be objects, or do not
    suit such a cluster.
    """
    settings = policies.settings
    if settings.certificates.by != "fairlead":
        raise UsageError("certificates by cert-manager need `fairlead deploy`, without --kustomize")
    if too_short := settings.certificates.too_short_for_kubelets():
        raise UsageError(too_short)
    nobody = Credentials("", b"", b"", b"").opening(settings.scopes())
    made = manifests.render_files(policies, nobody, sidecar=sidecars.DEFAULT)
    files = {
        name: [manifest for manifest in objects if not controller.makes(manifest)]
        for name, objects in made.items()
    }
    files = {name: objects for name, objects in files.items() if objects}
    return Rendered({**files, OBJECTS_FILE: policy_objects.of_policy_set(policies)})


def render(
    policies: PolicySet,
    *,
    sidecar: str | None = None,
    secrets: Path | None = None,
    renew: bool = False,
    progress: Progress,
) -> Rendered:
    """All objects, for a cluster that reaches OPA by its Service; sync is the default sidecar.

    With `secrets`, that file keeps the Secrets (see secrets_file): the first `save` makes them,
    later calls read them, and `renew` replaces them. Nothing is written yet.

    Raises UsageError if the settings do not suit a cluster of pods, and InputError if the file
    cannot be used.
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
    files = manifests.render_files(staged, credentials, sidecar=component)
    return Rendered(files, secrets_file)

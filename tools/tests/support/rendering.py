"""The objects of a deployment, rendered."""

from __future__ import annotations

from typing import Any

from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def render(chosen: dict[str, Any] | None = None, **more: Any) -> dict[str, dict[str, Any]]:
    """The first object of each kind."""
    settings = Settings.model_validate(chosen or {})
    rendered = manifests.render_objects(PolicySet.load(settings), Credentials.fresh(), **more)
    first_of_kind: dict[str, dict[str, Any]] = {}
    for manifest in rendered:
        first_of_kind.setdefault(manifest["kind"], manifest)
    return first_of_kind


def every(
    chosen: dict[str, Any] | None = None, **more: Any
) -> dict[tuple[str, str], dict[str, Any]]:
    """All objects by kind and name."""
    settings = Settings.model_validate(chosen or {})
    rendered = manifests.render_objects(PolicySet.load(settings), Credentials.fresh(), **more)
    return {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in rendered}

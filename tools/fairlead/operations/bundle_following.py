"""Clusters whose OPAs take their policies from signed bundles, as the component of `fairlead bundle
config --kustomize` has it. What changes policies in other clusters would have no effect there, or
work against GitOps."""

from __future__ import annotations

from fairlead.common.errors import UsageError
from fairlead.deployment.names import BUNDLES_ANNOTATION, NAMESPACE, OPA
from fairlead.kube import clients
from fairlead.kube.errors import Refused

PUSH = (
    "run `fairlead bundle build` and `fairlead bundle sign`, and put the file onto the server; to "
    "go back, sign an earlier bundle again"
)
DEPLOY = (
    "change and apply the kustomize folder, by `kubectl apply -k` or GitOps. To have `fairlead "
    "deploy` bring the policies again, first apply it without the component"
)
"""What to do instead of `fairlead push` and `rollback`, and of `fairlead deploy`."""


def followed(objects: clients.Objects) -> str | None:
    """The URL of the bundles that the OPAs of a cluster follow; None if they follow none, or if the
    user may not see it. Raises FairleadError.
    """
    try:
        deployment = objects.get("apps/v1", "Deployment", OPA, NAMESPACE) or {}
    except Refused:
        return None
    url = (deployment.get("metadata", {}).get("annotations") or {}).get(BUNDLES_ANNOTATION)
    return str(url) if url else None


def require_no_bundles(objects: clients.Objects, way_out: str) -> None:
    """Raises UsageError, with the way out, if the OPAs follow bundles."""
    url = followed(objects)
    if url:
        raise UsageError(
            f"the OPAs of this cluster take their policies from the signed bundles of {url}: "
            f"{way_out}"
        )

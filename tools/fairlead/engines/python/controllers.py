"""Which owner an object was made for, as in policies/lib/controllers/controllers.rego."""

from __future__ import annotations

from fairlead.engines.python.api import Request, get
from fairlead.policy.controllers import MAKERS


def owner(request: Request) -> str | None:
    """The `group/Kind` of the owner from whose template a controller of Kubernetes makes the
    request's object; None for any other object.
    """
    maker = MAKERS.get(request.kind.path)
    if maker is None or request.sub_resource or request.user.name not in maker.users:
        return None
    references = get(request.object, "metadata", "ownerReferences", default=[])
    is_owned = any(
        get(reference, "controller") is True
        and get(reference, "apiVersion") == maker.owner_version
        and get(reference, "kind") == maker.owner_kind
        for reference in (references if isinstance(references, list) else [])
    )
    return maker.owner if is_owned else None

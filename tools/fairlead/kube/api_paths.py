"""The paths under which an API server has objects and their collections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from fairlead.kube import admission_reviews


def of_version(api_version: str) -> str:
    """The path of an API version, such as apps/v1."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def joined(api_version: str, namespace: str | None, *parts: str) -> str:
    """The path of `parts` (the plural of a kind, a name, a subresource), in a namespace if there is
    one. Empty parts are left out.
    """
    namespace_parts = ("namespaces", namespace) if namespace else ()
    names = (quote(part, safe="") for part in (*namespace_parts, *parts) if part)
    return "/".join((of_version(api_version), *names))


def path_of(manifest: Mapping[str, Any], namespace: str | None, *parts: str) -> str:
    """The path of the collection that `manifest` belongs to, in `namespace`, followed by `parts`
    (name, subresource), without asking an API server: for kinds of Kubernetes itself, and for
    others with a regular plural.
    """
    kind, version = manifest["kind"], manifest["apiVersion"]
    plural = admission_reviews.plural(kind)
    # These kinds exist only as requests to a pod's subresources.
    if plural == "pods" and kind != "Pod":
        version = "v1"
    namespaced = admission_reviews.is_namespaced(version.rpartition("/")[0], kind)
    return joined(version, (namespace or "default") if namespaced else None, plural, *parts)

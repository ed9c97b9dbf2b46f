"""The kinds of object that are replicated into OPA besides namespaces, named as in kube-mgmt's
flags.

Source: Kubernetes documentation, "Kubernetes API Concepts"; kube-mgmt's README, "Caching".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_GROUP = re.compile(rf"(?!v[0-9]+(?:$|alpha|beta))(?:{_LABEL}(?:\.{_LABEL})*)?")
_VERSION = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_RESOURCE = re.compile(_LABEL)
_DOT = re.compile(r"(?<!\\)\.")

Field = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object to replicate; `group` is empty for the core group.

    `fields` are the paths to keep of each object, empty for the whole object. The name and the
    namespace always stay.
    """

    group: str
    version: str
    name: str
    namespaced: bool
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        return "/".join(filter(None, (self.group, self.version, self.name)))

    @property
    def api_version(self) -> str:
        """The group and the version, as manifests have them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The path under which the API server lists it, in all namespaces."""
        return f"/apis/{self}" if self.group else f"/api/{self}"

    @property
    def metadata_only(self) -> bool:
        """Whether only metadata is kept, so that requests can ask for metadata alone."""
        return bool(self.fields) and all(field[0] == "metadata" for field in self.fields)

    def thin(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """An object as OPA gets it: the chosen fields, or all but metadata.managedFields."""
        metadata = value["metadata"]
        if not self.fields:
            return {
                **value,
                "metadata": {key: part for key, part in metadata.items() if key != "managedFields"},
            }
        thinned: dict[str, Any] = _keep(value, _tree(self.fields))
        names = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        return {**thinned, "metadata": {**thinned.get("metadata", {}), **names}}


def parse(text: str, *, namespaced: bool, fields: Iterable[str] = ()) -> Resource:
    """The resource that `text` names, such as apps/v1/deployments or v1/pods. Raises ValueError."""
    parts = text.split("/")
    if len(parts) not in (2, 3):
        raise ValueError(
            f"{text!r} is not group/version/resource, like apps/v1/deployments or, in the core, "
            "v1/pods"
        )
    group, version, name = parts if len(parts) == 3 else ("", *parts)
    return make(group, version, name, namespaced=namespaced, fields=fields)


def make(
    group: str, version: str, name: str, *, namespaced: bool, fields: Iterable[str] = ()
) -> Resource:
    """A resource whose names are legal. Raises ValueError."""
    if not _GROUP.fullmatch(group) or len(group) > 253:
        raise ValueError(
            f"{group!r} is not an API group, like apps or networking.k8s.io; the core group is "
            "empty"
        )
    if not _VERSION.fullmatch(version):
        raise ValueError(f"{version!r} is not an API version, like v1 or v1beta1")
    if not _RESOURCE.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a resource: give its plural in lower case, like pods, without a "
            "subresource"
        )
    if name == "namespaces":
        raise ValueError(
            "namespaces are always replicated, with the labels that policies read: leave them out "
            "here"
        )
    return Resource(
        group, version, name, namespaced, tuple(dict.fromkeys(field(text) for text in fields))
    )


def field(text: str) -> Field:
    r"""The keys of a dotted path; a dot inside a key is written `\.`. Raises ValueError."""
    keys = tuple(key.replace("\\.", ".") for key in _DOT.split(text))
    if not all(keys) or text != text.strip():
        raise ValueError(
            rf"{text!r} is not a dotted path, like spec.nodeName or metadata.labels.app\.kubernetes\.io/name"  # noqa: E501
        )
    return keys


def dotted(path: Field) -> str:
    """The inverse of `field`."""
    return ".".join(key.replace(".", "\\.") for key in path)


def check_distinct(resources: Iterable[Resource]) -> None:
    """Raises ValueError if two resources have the same place in OPA's data, which is the resource's
    name alone.
    """
    by_name: dict[str, Resource] = {}
    for resource in resources:
        if resource.name in by_name:
            pair = f"{by_name[resource.name]} and {resource}"
            raise ValueError(
                f"{pair} would both be put at kubernetes/{resource.name} in OPA's data: keep one"
            )
        by_name[resource.name] = resource


_Tree = dict[str, "_Tree | None"]


@cache
def _tree(fields: tuple[Field, ...]) -> _Tree:
    """The paths as a tree of keys; None means that everything below is kept."""
    tree: _Tree = {}
    # The shorter path last: it includes the longer ones that begin with it.
    for path in sorted(fields, key=len, reverse=True):
        node = tree
        for key in path[:-1]:
            child = node.setdefault(key, {})
            node = child if child is not None else {}
        node[path[-1]] = None
    return tree


def _keep(value: Any, fields: _Tree) -> Any:
    """The chosen fields of a mapping, or of each element of a list. Other values are dropped."""
    if isinstance(value, list):
        return [_keep(part, fields) for part in value if isinstance(part, dict | list)]
    thinned = {}
    for key, child in fields.items():
        if key not in value:
            continue
        if child is None:
            thinned[key] = value[key]
        elif isinstance(value[key], dict | list):
            thinned[key] = _keep(value[key], child)
    return thinned

"""Puts objects of files and clusters where queries look for them: at `data.inventory`, by their
clusters. Sentences say what of a cluster was not seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.admission.inventory import Inventory
from fairlead.clusters.base import Cluster
from fairlead.common import yaml_files
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import EXEMPT
from fairlead.kube import admission_reviews
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.errors import Refused
from fairlead.kube.resources import Field, Resource
from fairlead.placement import autoscalers, manifest_kinds, sources
from fairlead.placement.manifest_kinds import Scopes, mapping

Tree = dict[str, Any]
"""The objects of one cluster: {resource: {namespace: {name: object}}}, without the namespace for
nodes and namespaces."""

_METADATA: tuple[Field, ...] = (("metadata", "labels"), ("metadata", "annotations"))
_NAMESPACES = Resource("", "v1", "namespaces", False, _METADATA)
# There may be very many pods.
_OF_PODS = {
    ("", "Namespace"): _NAMESPACES,
    ("", "Node"): Resource("", "v1", "nodes", False, (("metadata", "labels"),)),
    manifest_kinds.PODS: Resource(
        "", "v1", "pods", True, (("spec", "nodeName"), ("status", "phase"))
    ),
}
_PLACED_PODS = Resource(
    *("", "v1", "pods", True),
    (
        *_METADATA,
        ("kind",),
        ("metadata", "ownerReferences"),
        *(
            ("spec", *path)
            for path in (
                ("containers", "resources"),
                ("initContainers", "resources"),
                ("initContainers", "restartPolicy"),
                *(("overhead",), ("resources",), ("tolerations",), ("volumes",)),
            )
        ),
        ("status", "phase"),
    ),
)
_OF_PLACEMENT = {
    ("", "Namespace"): _NAMESPACES,
    manifest_kinds.PODS: _PLACED_PODS,
    **{
        (group, kind): Resource(group, "v1", admission_reviews.plural(kind), True)
        for group, kind in manifest_kinds.TEMPLATES
    },
}
_OTHERS = "objects"
"""Where objects without pods are, by kind and name: they may be a customer's."""


@dataclass(frozen=True)
class Seen:
    """The objects of one cluster, and sentences about what was not seen of it."""

    tree: Tree
    unseen: Sequence[str] = ()


def of_cluster(cluster: Cluster, *, about_placement: bool, progress: Progress) -> Seen:
    """What the cluster has now: workloads and pods for queries about placement, otherwise pods and
    nodes. Raises FairleadError if something cannot be listed; about placement, what nobody may list
    is left out.
    """
    inventory = Inventory(ApiRequests(cluster.kubeconfig), progress)
    if not about_placement:
        return Seen(_without_exempt(inventory.trees(_OF_PODS.values())))
    tree: Tree = {}
    unseen = []
    for (_, kind), resource in _OF_PLACEMENT.items():
        try:
            tree |= inventory.trees([resource])
        except Refused as error:
            if error.status != 403:
                raise
            unseen.append(f"you may not list {kind}s, so none of them is in the answer: {error}")
    return Seen(_of_customers(tree), unseen)


def of_files(paths: Sequence[Path], *, about_placement: bool) -> Seen:
    """What the manifests and Lists in files, folders and standard input (files.STDIN) say of one
    cluster. Raises InputError.
    """
    tree = _tree(sources.documents(paths), about_placement)
    missing = sorted(
        kind
        for (_, kind), resource in _OF_PLACEMENT.items()
        if about_placement and resource.name not in tree
    )
    unseen = (
        [f"its objects have no {', '.join(missing)}: if there are any, the answer lacks them"]
        if missing
        else []
    )
    return Seen(tree, unseen)


def of_manifests(documents: Sequence[yaml_files.Document], *, about_placement: bool) -> Tree:
    """The objects of documents that are in no cluster, with the replicas that count. Raises
    InputError.
    """
    by_target = autoscalers.of(documents)
    return _tree(
        [
            replace(
                document,
                value=dict(
                    autoscalers.scaled(
                        document.value, by_target.get(autoscalers.key_of(document.value))
                    )
                ),
            )
            for document in documents
        ],
        about_placement,
    )


def of_members(members: Sequence[str], *, about_placement: bool) -> dict[str, Seen]:
    """What `CLUSTER=FILE` texts name, by cluster. Several files may belong to one cluster. Raises
    UsageError, InputError.
    """
    paths: dict[str, list[Path]] = {}
    for text in members:
        cluster, _, file = text.partition("=")
        if not cluster or not file:
            raise UsageError(
                f"--member {text}: write CLUSTER=FILE, the cluster as in placement.clusters"
            )
        paths.setdefault(cluster, []).append(Path(file))
    return {
        cluster: of_files(files, about_placement=about_placement)
        for cluster, files in paths.items()
    }


def _tree(documents: Sequence[yaml_files.Document], about_placement: bool) -> Tree:
    tree: Tree = {}
    for place, value, document in _placed(documents, about_placement):
        *groups, name = place
        at = tree
        for group in groups:
            at = at.setdefault(group, {})
        if name in at:
            title = manifest_kinds.title_of(document.value)
            raise document.error(
                f"{title} was read before: name the objects of each cluster once, those of member "
                "clusters by --member CLUSTER=FILE",
                ["metadata", "name"],
            )
        at[name] = value
    return _of_customers(tree) if about_placement else _without_exempt(tree)


def _placed(
    documents: Sequence[yaml_files.Document], about_placement: bool
) -> Iterator[tuple[tuple[str, ...], Tree, yaml_files.Document]]:
    """Each object with its place in the tree, and its document."""
    known = _OF_PLACEMENT if about_placement else {**_OF_PLACEMENT, **_OF_PODS}
    scopes = Scopes(documents)
    for document in documents:
        value = document.value
        group, kind = manifest_kinds.kind_of(value)
        resource = known.get((group, kind))
        metadata = value.get("metadata") or {}
        if resource is None and about_placement and manifest_kinds.runs_pods(value):
            value = manifest_kinds.with_template(value)
            resource = Resource(group, "v1", f"{kind.lower()}.{group}", True)
        if resource is not None:
            thinned = resource.thin({**value, "metadata": metadata | _named(document)})
            namespace = manifest_kinds.namespace_of(metadata)
            if resource.namespaced:
                thinned["metadata"]["namespace"] = namespace
            at = (resource.name, namespace) if resource.namespaced else (resource.name,)
            yield (*at, thinned["metadata"]["name"]), thinned, document
        elif about_placement and metadata.get("name"):
            namespaced = scopes.is_namespaced(value) is not False
            namespace = manifest_kinds.namespace_of(metadata) if namespaced else ""
            marks = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
            thinned = {"kind": kind, "metadata": marks}
            yield (_OTHERS, namespace, f"{kind}.{group} {metadata['name']}"), thinned, document


def _named(document: yaml_files.Document) -> dict[str, Any]:
    """The name of the object, or the beginning of those that it will get. Raises InputError without
    either.
    """
    metadata = document.value.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName")
    if not name:
        raise document.error("has an object without metadata.name: name it", ["metadata"])
    return {"name": name}


def _without_exempt(tree: Mapping[str, Any]) -> Tree:
    """The tree without the pods that no policy applies to."""
    pods = {
        namespace: group
        for namespace, group in tree.get("pods", {}).items()
        if namespace not in EXEMPT
    }
    return {**tree, "pods": pods} if "pods" in tree else dict(tree)


def _of_customers(tree: Mapping[str, Any]) -> Tree:
    """The tree without what belongs to the cluster itself: it is in an exempt namespace, and names
    no customer.
    """

    def counts(namespace: str, value: Mapping[str, Any]) -> bool:
        fields = (mapping(value["metadata"].get(field)) for field in ("annotations", "labels"))
        return namespace not in EXEMPT or any("customer" in field for field in fields)

    return {
        resource: objects
        if resource == _NAMESPACES.name
        else {
            namespace: {name: value for name, value in group.items() if counts(namespace, value)}
            for namespace, group in objects.items()
        }
        for resource, objects in tree.items()
    }

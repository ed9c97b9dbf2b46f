"""Puts objects of files and clusters where queries look for them: at `data.inventory`, by their
clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.admission.inventory import Inventory
from fairlead.clusters.base import Cluster
from fairlead.common import yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment.names import EXEMPT
from fairlead.inputs import manifest_files
from fairlead.kube import admission_reviews
from fairlead.kube.resources import Resource

Tree = dict[str, Any]
"""The objects of one cluster: {resource: {namespace: {name: object}}}, without the namespace for
nodes and namespaces."""

_METADATA = (("metadata", "labels"), ("metadata", "annotations"))
_NAMESPACES = Resource("", "v1", "namespaces", False, _METADATA)
_OF_PODS = (
    _NAMESPACES,
    Resource("", "v1", "nodes", False, (("metadata", "labels"),)),
    # There may be very many.
    Resource("", "v1", "pods", True, (("spec", "nodeName"), ("status", "phase"))),
)
_OF_PLACEMENT = (
    _NAMESPACES,
    Resource("apps", "v1", "deployments", True),
    Resource("apps", "v1", "replicasets", True),
    Resource("apps", "v1", "statefulsets", True),
    Resource("batch", "v1", "jobs", True),
)
_BY_KIND = {
    kind: resource
    for kind in ("Namespace", "Node", "Pod", "Deployment", "ReplicaSet", "StatefulSet", "Job")
    for resource in (*_OF_PODS, *_OF_PLACEMENT)
    if resource.name == admission_reviews.plural(kind)
}


def of_cluster(cluster: Cluster, *, about_placement: bool, progress: Progress) -> Tree:
    """What the cluster has now: workloads for queries about placement, otherwise pods and nodes.
    Raises FairleadError if something cannot be listed.
    """
    resources = _OF_PLACEMENT if about_placement else _OF_PODS
    return _without_exempt(Inventory(cluster, progress).trees(resources))


def of_files(paths: Sequence[Path]) -> Tree:
    """What the manifests and Lists in files, folders and standard input (files.STDIN) say. Other
    kinds are left out. Raises InputError.
    """
    documents = manifest_files.read(paths).all_readable()
    return of_documents(documents)


def of_documents(documents: Sequence[yaml_files.Document]) -> Tree:
    """The objects of documents, as a tree."""
    tree: Tree = {}
    for resource, document in _known(documents):
        metadata = document.value.get("metadata") or {}
        name, namespace = metadata.get("name"), metadata.get("namespace") or "default"
        if not name:
            raise InputError(
                yaml_files.shown(document.path),
                "has an object without metadata.name: name it",
                line=document.line(["metadata"]),
            )
        thinned = resource.thin({**document.value, "metadata": metadata})
        if resource.namespaced:
            thinned["metadata"]["namespace"] = namespace
        at = tree.setdefault(resource.name, {})
        at = at.setdefault(namespace, {}) if resource.namespaced else at
        if name in at:
            title = f"{document.value['kind']} {namespace}/{name}"
            raise InputError(
                yaml_files.shown(document.path),
                f"{title} was read before: name the objects of each cluster once, those of member "
                "clusters by --member CLUSTER=FILE",
                line=document.line(["metadata", "name"]),
            )
        at[name] = thinned
    return _without_exempt(tree)


def of_members(members: Sequence[str]) -> dict[str, Tree]:
    """The trees of `CLUSTER=FILE` texts by cluster. Several files may belong to one cluster.
    Raises UsageError, InputError.
    """
    paths: dict[str, list[Path]] = {}
    for text in members:
        cluster, _, file = text.partition("=")
        if not cluster or not file:
            raise UsageError(
                f"--member {text}: write CLUSTER=FILE, the cluster as in placement.clusters"
            )
        paths.setdefault(cluster, []).append(Path(file))
    return {cluster: of_files(named) for cluster, named in paths.items()}


def _known(
    documents: Sequence[yaml_files.Document],
) -> Iterator[tuple[Resource, yaml_files.Document]]:
    for document in documents:
        resource = _BY_KIND.get(document.value["kind"])
        group = document.value["apiVersion"].rpartition("/")[0]
        if resource is not None and group == resource.group:
            yield resource, document


def _without_exempt(tree: Mapping[str, Any]) -> Tree:
    """The tree without the pods that no policy applies to."""
    pods = {
        namespace: group
        for namespace, group in tree.get("pods", {}).items()
        if namespace not in EXEMPT
    }
    return {**tree, "pods": pods} if "pods" in tree else dict(tree)

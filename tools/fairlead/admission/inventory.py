"""Lists a cluster's pods, workloads and the other objects that policies are about, without the
fields that the cluster added. Needs only the right to list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairlead.admission import earlier_pools
from fairlead.admission.earlier_pools import Pools
from fairlead.common.progress import Progress
from fairlead.deployment.names import EXEMPT
from fairlead.kube import admission_reviews, api_paths, stored_fields
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.errors import ApiServerError
from fairlead.kube.pod_templates import TEMPLATES
from fairlead.kube.resources import Resource
from fairlead.policy import exceptions
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Kind
from fairlead.settings.models import Replicated

Object = Mapping[str, Any]

_READ = {kind for _, kind in TEMPLATES}
# Pods that have ended run nowhere, and nobody applies them again.
_ALIVE = ("status.phase!=Succeeded", "status.phase!=Failed")
_MIRROR = "kubernetes.io/config.mirror"


@dataclass(frozen=True)
class Subject:
    """A pod, a workload or another object. `reviews` are the requests to decide on: for a workload
    first the creation of its pod and then its own, for any other object its creation.

    Pods that a node or a DaemonSet places have no reviews. `node` is the node that a pod runs on.
    `namespace` is empty for an object without one. `runs` says whether it is a pod or makes pods.

    `stored` is the spec of a pod as it is, if pools gave it something; its review has not.
    `made_by` are the kind and the name of the workload that makes the pod again, if one does.
    """

    namespace: str
    kind: str
    name: str
    reviews: tuple[dict[str, Any], ...]
    node: str | None = None
    runs: bool = True
    stored: Object | None = None
    made_by: tuple[str, str] | None = None


@dataclass(frozen=True)
class Workload:
    """A workload that makes pods or other workloads: what its template has of the fields that pools
    give, and the kind and name of the one by which people change it: of a ReplicaSet, its
    Deployment.
    """

    template: Object
    changed_by: tuple[str, str]


def further_kinds(active: Iterable[Instance]) -> list[Kind]:
    """The kinds, besides pods and workloads, whose creation the intents have a say in."""
    kinds = {
        kind.path: kind
        for instance in active
        for request in instance.requests
        if "CREATE" in request.operations
        for kind in request.kinds
        if not kind.subresource and (kind.group, kind.kind) not in {*TEMPLATES, ("", "Pod")}
    }
    return [kinds[path] for path in sorted(kinds)]


class Inventory:
    """The current state of a cluster, without exempt namespaces and without pods and jobs that have
    ended. `kinds` are those besides pods and workloads; see `further_kinds`. `pools` are all that
    may have placed its pods.
    """

    def __init__(
        self,
        api: ApiRequests,
        progress: Progress,
        kinds: Sequence[Kind] = (),
        pools: Pools | None = None,
        *,
        lenient: bool = False,
    ) -> None:
        """With `lenient`, kinds are left out that nobody may list, but for pods and workloads."""
        self._api = api
        self._lenient = lenient
        self._progress = progress
        self._kinds = kinds
        self._pools = pools or Pools()

    @cached_property
    def namespaces(self) -> dict[str, Any]:
        """Every namespace, name -> {metadata: {name, labels}}. Raises FairleadError if they cannot
        be listed.
        """
        return {
            name: {"metadata": {"name": name, "labels": labels}}
            for name, labels in self._labels("namespaces")
        }

    @cached_property
    def nodes(self) -> dict[str, Mapping[str, str]]:
        """The labels of every node, by name. Raises FairleadError if nodes cannot be listed."""
        return dict(self._labels("nodes"))

    @cached_property
    def exceptions(self) -> list[PolicyException]:
        """The exceptions; none in a cluster that does not serve them, as nothing is deployed, and
        with a warning if they may not be listed. Raises FairleadError.
        """
        try:
            return exceptions.readable(self._listed(exceptions.RESOURCE.path))
        except ApiServerError as error:
            if error.status == 403:
                self._progress.warn(f"no exception counts, as you may not list them: {error}")
            elif error.status != 404:
                raise
            return []

    @cached_property
    def subjects(self) -> list[Subject]:
        """Every pod, every workload and every object of the further kinds. Raises FairleadError if
        a kind of them cannot be listed.
        """
        return [*self.each()]

    def each(self) -> Iterator[Subject]:
        """The same one after the other, as pages of lists come: a cluster may have more than fits
        into memory.
        """
        # A namespace may have been deleted since, with all objects in it.
        names = {"", *self.namespaces}
        return (subject for subject in self._each() if subject.namespace in names)

    def _each(self) -> Iterator[Subject]:
        workloads: dict[str, Workload] = {}
        for (group, name), path in TEMPLATES.items():
            version = f"{group}/v1".lstrip("/")
            for stored in self._objects(
                api_paths.joined(version, None, admission_reviews.plural(name))
            ):
                yield from of_workload(stored, path)
                spec = _template(stored, path).get("spec") or {}
                pool_fields = {key: spec[key] for key in earlier_pools.FIELDS if key in spec}
                workloads[stored["metadata"]["uid"]] = Workload(
                    {"spec": pool_fields}, _changed_by(stored)
                )
        for pod in self._objects("/api/v1/pods", *_ALIVE):
            yield from of_pod(pod, self._pools, workloads)
        for kind in self._kinds:
            for stored in self._of_kind(kind):
                yield of_object(stored, kind)

    def data(self, replicated: Iterable[Replicated]) -> dict[str, Any]:
        """`data.kubernetes` as the sidecar loads it into OPA: namespaces, exceptions that have not
        ended, and the `replicated` resources. Raises FairleadError if they cannot be listed.
        """
        resources = [resource.named() for resource in replicated]
        return {
            "namespaces": self.namespaces,
            exceptions.RESOURCE.name: exceptions.tree(exceptions.in_force(self.exceptions)),
            **self.trees(resources),
        }

    def trees(self, resources: Iterable[Resource]) -> dict[str, Any]:
        """All objects of these resources as `data.kubernetes` has them, by the names of the
        resources: {resource: {namespace: {name: object}}}, without the namespace for those without
        one. Raises FairleadError if they cannot be listed.
        """
        return {resource.name: self._replicated(resource) for resource in resources}

    def _labels(self, resource: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        for entry in self._listed(f"/api/v1/{resource}", metadata_only=True):
            yield entry["metadata"]["name"], entry["metadata"].get("labels") or {}

    def _objects(self, path: str, *fields: str) -> Iterator[Object]:
        exempt = (f"metadata.namespace!={namespace}" for namespace in EXEMPT)
        return self._listed(path, ",".join((*exempt, *fields)))

    def _of_kind(self, kind: Kind) -> Iterator[Object]:
        """The objects of a kind; none if the API server does not serve it (yet)."""
        prefix = f"/apis/{kind.group}" if kind.group else "/api"
        try:
            for stored in self._listed(f"{prefix}/{kind.version}/{kind.resources}"):
                metadata = stored["metadata"]
                namespace = (
                    metadata["name"] if kind.path == "/Namespace" else metadata.get("namespace")
                )
                if namespace not in EXEMPT:
                    yield stored
        except ApiServerError as error:
            if error.status != 404 and not (self._lenient and error.status == 403):
                raise

    def _replicated(self, resource: Resource) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for item in self._listed(resource.path, metadata_only=resource.metadata_only):
            thin = resource.thin(item)
            at = tree.setdefault(thin["metadata"]["namespace"], {}) if resource.namespaced else tree
            at[thin["metadata"]["name"]] = thin
        return tree

    def _listed(
        self, path: str, fields: str = "", *, metadata_only: bool = False
    ) -> Iterator[dict[str, Any]]:
        title = path.rpartition("/")[2]
        selector = {"fieldSelector": fields}
        objects = self._api.collection(path, selector, metadata_only=metadata_only)
        for count, item in enumerate(objects):
            if count % 1000 == 0:
                self._progress.update(
                    "cluster", f"reading {title}{f', {count} so far' if count else ''}"
                )
            yield item


def of_pod(
    pod: Object, pools: Pools | None = None, workloads: Mapping[str, Workload] | None = None
) -> Iterator[Subject]:
    """The pod as its author would apply it again, without what `pools` gave it. `workloads` are
    those that may have made it, by uid.

    Its spec.nodeName may come from the author or from the scheduler. The API server records who set
    which field (metadata.managedFields), except for the scheduler's binding, so a nodeName without
    an entry comes from the scheduler.
    """
    metadata, node = pod["metadata"], pod["spec"].get("nodeName") or None
    identity = (metadata["namespace"], "Pod", metadata["name"])
    if _placed_by_another(pod, node):
        yield Subject(*identity, (), node)
        return
    controller = _controller(pod)
    workload = (workloads or {}).get(controller.get("uid", ""))
    spec = (pools or Pools()).without(pod, workload.template if workload else None)
    is_placed = earlier_pools.given(spec) != earlier_pools.given(pod["spec"])
    if not _sets_node(metadata.get("managedFields") or ()):
        spec.pop("nodeName", None)
    review = admission_reviews.build({**stored_fields.without(pod), "spec": spec})
    yield Subject(
        *identity,
        (review,),
        node,
        stored=pod["spec"] if is_placed else None,
        made_by=workload.changed_by if workload else _changed_by(pod) if controller else None,
    )


def of_workload(workload: Object, template: Iterable[str]) -> Iterator[Subject]:
    """The workload with the pod of its template; none if another workload controls it or if it has
    ended.
    """
    controller = _controller(workload)
    conditions = (workload.get("status") or {}).get("conditions") or ()
    ended = any(
        c.get("type") in ("Complete", "Failed") and c.get("status") == "True" for c in conditions
    )
    if controller.get("kind") in _READ or (workload["kind"] == "Job" and ended):
        return
    metadata, part = workload["metadata"], _template(workload, template)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **{
                key: value
                for key, value in (part.get("metadata") or {}).items()
                if key not in stored_fields.METADATA
            },
            **_pod_name(workload),
            "namespace": metadata["namespace"],
            **({"ownerReferences": [_owner(workload)]} if workload["kind"] == "DaemonSet" else {}),
        },
        "spec": part.get("spec") or {},
    }
    reviews = (
        admission_reviews.build(pod),
        admission_reviews.build(stored_fields.without(workload)),
    )
    yield Subject(metadata["namespace"], workload["kind"], metadata["name"], reviews)


def _pod_name(workload: Object) -> dict[str, str]:
    """What the metadata of the workload's first pod says of its name."""
    name = workload["metadata"]["name"]
    if workload["kind"] != "StatefulSet":
        return {"generateName": f"{name}-"}
    first = ((workload.get("spec") or {}).get("ordinals") or {}).get("start") or 0
    return {"name": f"{name}-{first}"}


def of_object(stored: Object, kind: Kind) -> Subject:
    """An object that runs no pods, as its author would apply it again."""
    namespace = stored["metadata"].get("namespace", "")
    review = admission_reviews.build(stored_fields.without(stored))
    for key in ("resource", "requestResource"):
        review["request"][key] = {**review["request"][key], "resource": kind.resources}
    if not namespace and kind.path != "/Namespace":
        review["request"].pop("namespace", None)
    name = stored["metadata"]["name"]
    return Subject(namespace, kind.kind, name, (review,), runs=False)


def _template(workload: Object, path: Iterable[str]) -> Object:
    part = workload
    for key in path:
        part = part.get(key) or {}
    return part


def _changed_by(stored: Object) -> tuple[str, str]:
    """The kind and the name of its controller, or of the object itself."""
    controller = _controller(stored) or {
        "kind": stored["kind"],
        "name": stored["metadata"]["name"],
    }
    return str(controller.get("kind")), str(controller.get("name"))


def _owner(workload: Object) -> dict[str, Any]:
    """The owner reference in pods that the workload's own controller creates."""
    reference = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": workload["metadata"]["name"],
    }
    return {**reference, "controller": True}


def _placed_by_another(pod: Object, node: str | None) -> bool:
    """Whether a DaemonSet's controller chose the pod's node (then its template is checked instead),
    or the pod is the mirror of a static pod.
    """
    controller = _controller(pod)
    if (controller.get("apiVersion"), controller.get("kind")) == ("apps/v1", "DaemonSet"):
        return True
    owned = (controller.get("apiVersion"), controller.get("kind"), controller.get("name")) == (
        "v1",
        "Node",
        node,
    )
    return owned and _MIRROR in (pod["metadata"].get("annotations") or {})


def _controller(item: Object) -> Object:
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def _sets_node(managed: Iterable[Object]) -> bool:
    """Whether somebody set spec.nodeName by writing the pod itself, not by its binding."""
    return any(
        not entry.get("subresource")
        and "f:nodeName" in (entry.get("fieldsV1") or {}).get("f:spec", {})
        for entry in managed
    )

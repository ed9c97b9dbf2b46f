"""AdmissionReviews (admission.k8s.io/v1): built from manifests as an API server builds them. Their
patches are read, and applied to objects.

Source: Kubernetes documentation, Dynamic Admission Control, "Webhook request and response".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import jsonpatch
import jsonpointer

from fairlead.common import json_numbers
from fairlead.common.errors import FairleadError
from fairlead.kube import served_kinds
from fairlead.kube.served_kinds import Known

API_VERSION = "admission.k8s.io/v1"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
ADMINISTRATOR: Mapping[str, Any] = {
    "username": "kubernetes-admin",
    "groups": ["system:masters", "system:authenticated"],
}

# Kinds that are sent to a subresource of a pod, so that their reviews name the resource `pods`.
_OF_PODS = {
    "Binding",
    "Eviction",
    "PodExecOptions",
    "PodAttachOptions",
    "PodPortForwardOptions",
    "PodProxyOptions",
}


def build(
    manifest: Mapping[str, Any],
    *,
    operation: str = "CREATE",
    namespace: str | None = None,
    old: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    sub_resource: str | None = None,
    parent: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    kinds: Known | None = None,
) -> dict[str, Any]:
    """The review that an API server would send for `operation` on `manifest`, which has an
    apiVersion and a kind.

    For DELETE the manifest becomes the oldObject, and there is no object. The namespace of a
    Namespace is its own name. `parent` is the object whose subresource gets another kind of object,
    such as a Deployment that gets a Scale. `kinds` are those that are known; None for those of
    Kubernetes itself. An object of another kind belongs to a namespace if it names one.
    """
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or ""
    own_namespace = namespace or metadata.get("namespace")
    kind = dict(
        zip(("group", "version", "kind"), (*group_version(manifest), manifest["kind"]), strict=True)
    )
    owner = parent or manifest
    resource = dict(zip(("group", "version"), group_version(owner), strict=True))
    known = (kinds or served_kinds.builtin()).get((resource["group"], owner["kind"]))
    resource["resource"] = known.plural if known else plural(owner["kind"])
    if owner["kind"] in _OF_PODS:
        resource["group"], resource["version"] = "", "v1"
    request: dict[str, Any] = {
        "uid": str(uuid4()),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "operation": operation,
        "userInfo": dict(user or ADMINISTRATOR),
        "object": None if operation == "DELETE" else manifest,
        "oldObject": manifest if operation == "DELETE" else old,
        "dryRun": dry_run,
    }
    if name:
        request["name"] = name
    if manifest["kind"] == "Namespace":
        request["namespace"] = name
    elif known.namespaced if known else own_namespace or owner["kind"] in _OF_PODS:
        request["namespace"] = own_namespace or "default"
    if sub_resource:
        request["subResource"] = request["requestSubResource"] = sub_resource
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "request": request}


def group_version(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The group and the version of the manifest's apiVersion; the group of `v1` is empty."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    return group, version


def is_of_pods(kind: str) -> bool:
    """Whether objects of this kind are only sent to subresources of pods."""
    return kind in _OF_PODS


def is_namespaced(group: str, kind: str) -> bool:
    """Whether objects of a kind of Kubernetes itself belong to namespaces."""
    known = served_kinds.builtin().get((group, kind))
    return known is None or known.namespaced


def belongs_to_namespace(request: Mapping[str, Any]) -> bool:
    """Whether the object of a request is of a kind of Kubernetes itself that has a namespace."""
    kind = _mapping(request.get("kind"))
    known = served_kinds.builtin().get((str(kind.get("group") or ""), str(kind.get("kind"))))
    return known is not None and known.namespaced


def plural(kind: str) -> str:
    """The resource that stores objects of `kind`, by the rule that Kubernetes' own kinds follow."""
    if kind in _OF_PODS:
        return "pods"
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith(("s", "x", "ch", "sh")):
        return name + "es"
    return name[:-1] + "ies" if name.endswith("y") and name[-2:-1] not in "aeiou" else name + "s"


@dataclass(frozen=True)
class Subject:
    """What a review is about; dashes for what is missing. `kind` ends with the subresource, if the
    request is for one. `namespace` is None for objects without one.
    """

    operation: str
    kind: str
    namespace: str | None
    name: str

    @property
    def object(self) -> str:
        """The object in words, such as `Pod payments/web`."""
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


def subject(review: Any) -> Subject:
    """What the review is about, as far as it can be read."""
    request = request_of(review)
    metadata = _mapping(_mapping(request.get("object") or request.get("oldObject")).get("metadata"))
    prefix = metadata.get("generateName")
    name = request.get("name") or metadata.get("name") or (f"{prefix}*" if prefix else "-")
    kind = _mapping(request.get("kind")).get("kind", "-")
    suffix = f"/{request['subResource']}" if request.get("subResource") else ""
    namespace = request.get("namespace") if kind != "Namespace" else None
    return Subject(
        str(request.get("operation", "-")),
        f"{kind}{suffix}",
        str(namespace) if namespace else None,
        str(name),
    )


def title(review: Any) -> str:
    """A review in one line, such as `CREATE of Pod payments/web`; dashes for what is missing."""
    of = subject(review)
    return f"{of.operation} of {of.object}"


def request_of(review: Any) -> Mapping[str, Any]:
    """The request of a review; empty if it has none."""
    return _mapping(_mapping(review).get("request"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def patch_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations of an answer's JSON Patch (RFC 6902), empty without a patch. Raises
    FairleadError.
    """
    response = answer["response"]
    if "patch" not in response:
        return []
    if response.get("patchType") != "JSONPatch":
        raise FairleadError(
            f"the answer's patchType is {response.get('patchType')!r}: only JSONPatch is one"
        )
    try:
        patch = json.loads(
            base64.b64decode(response["patch"], validate=True), parse_int=json_numbers.whole
        )
    except (ValueError, TypeError, RecursionError) as error:
        raise FairleadError(f"the answer's patch is not base64 of JSON: {error}") from error
    if not isinstance(patch, list):
        raise FairleadError("the answer's patch is not a list of operations")
    return patch


def apply(patch: Sequence[Mapping[str, Any]], manifest: Any) -> Any:
    """A copy of `manifest` with `patch` applied. Raises FairleadError."""
    try:
        return jsonpatch.apply_patch(manifest, [dict(operation) for operation in patch])
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise FairleadError(f"the answer's patch does not apply to the object: {error}") from error


def is_review(document: Mapping[str, Any]) -> bool:
    """Whether the document calls itself an AdmissionReview, of any version."""
    return bool(document["kind"] == "AdmissionReview")

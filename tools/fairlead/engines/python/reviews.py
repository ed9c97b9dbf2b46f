"""Reads AdmissionReviews into requests, as policies/review/review.rego does.

Source: Kubernetes documentation, Dynamic Admission Control, "Webhook request and response".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fairlead.engines.python.api import UNNAMED, Kind, Request, Resource, User, get

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_LONGEST_UID = 256

_LONGEST_PREFIX = 58
_SUFFIX = re.compile("[2456789bcdfghjklmnpqrstvwxz]{5}")
"""What API servers add to `generateName`. Source: k8s.io/apiserver/pkg/storage/names."""


def request_of(review: Any) -> Mapping[str, Any]:
    """The part `request` of a review; empty if it has none."""
    request = get(review, "request")
    return request if isinstance(request, Mapping) else {}


def uid(review: Any) -> str:
    """The uid of the request, which the answer repeats; empty if it has none that is usable."""
    value = request_of(review).get("uid")
    return value if isinstance(value, str) and len(value) <= _LONGEST_UID else ""


def namespace(review: Any) -> str:
    """The namespace of the request; empty if it has none."""
    value = request_of(review).get("namespace")
    return value if isinstance(value, str) else ""


def problems(review: Any, versions: tuple[str, ...] = VERSIONS) -> Iterator[str]:
    """Why the review cannot be read; nothing for any review that an API server sends."""
    request = get(review, "request")
    if not (
        isinstance(request, Mapping)
        and review.get("kind") == "AdmissionReview"
        and review.get("apiVersion") in versions
    ):
        yield "the review is not an AdmissionReview of admission.k8s.io/v1"
        return
    kind = request.get("kind", {})
    if not isinstance(get(kind, "kind"), str):
        yield "request.kind has no kind: cannot tell whether a policy applies"
    if isinstance(kind, Mapping) and not isinstance(kind.get("group", ""), str):
        yield "request.kind.group is not a string: cannot tell whether a policy applies"
    if request.get("operation") not in _OPERATIONS:
        yield (
            "request.operation is not one of CREATE, UPDATE, DELETE, CONNECT: cannot tell what is "
            "asked"
        )
    if not uid(review):
        yield (
            "request.uid is not a string of 1 to 256 characters: the answer could not be matched "
            "to it"
        )
    if not isinstance(request.get("subResource") or "", str):
        yield "request.subResource is not a string: cannot tell what is asked"


def read(review: Any, namespace_labels: Mapping[str, str] | None) -> Request:
    """The request of a review without `problems`."""
    request = request_of(review)
    kind, resource, name = request["kind"], request.get("resource"), _name(request)
    return Request(
        operation=request["operation"],
        kind=Kind(_text(kind, "group"), _text(kind, "version"), kind["kind"]),
        object=request.get("object"),
        old_object=request.get("oldObject"),
        name=name,
        object_name=(_text(request, "name") or name) if name == UNNAMED else name,
        namespace=namespace(review),
        namespace_labels=namespace_labels,
        sub_resource=request.get("subResource") or "",
        resource=Resource(
            _text(resource, "group"), _text(resource, "version"), _text(resource, "resource")
        ),
        user=_user(request.get("userInfo")),
        dry_run=request.get("dryRun") is True,
    )


def _name(request: Mapping[str, Any]) -> str:
    """The name for messages. The final name of an object whose name is generated differs in each
    attempt of a controller, and a refused object never gets it. A StatefulSet's pod has a prefix,
    too, but keeps its name.
    """
    metadata = get(request.get("object"), "metadata")
    prefix, name = _text(metadata, "generateName"), _text(metadata, "name")
    if prefix and request["operation"] != "UPDATE" and _is_random(name, prefix[:_LONGEST_PREFIX]):
        return f"{prefix}*"
    return name or UNNAMED


def _is_random(name: str, prefix: str) -> bool:
    """Whether the name was generated from the prefix, or will be."""
    suffix = _SUFFIX.fullmatch(name.removeprefix(prefix))
    return not name or (name.startswith(prefix) and suffix is not None)


def _user(info: Any) -> User:
    groups = get(info, "groups", default=[])
    texts = groups if isinstance(groups, list) else []
    return User(
        _text(info, "username"), frozenset(group for group in texts if isinstance(group, str))
    )


def _text(value: Any, key: str) -> str:
    text = get(value, key)
    return text if isinstance(text, str) else ""

"""Makes the requests to decide on of AdmissionReviews and manifests in files, and finds the labels
of their namespaces, for `fairlead eval`."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from fairlead.common import yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.inputs import manifest_files, metadata_checks
from fairlead.kube import admission_reviews, own_kinds, served_kinds
from fairlead.kube.discovery import Kind
from fairlead.kube.served_kinds import Known
from fairlead.policy import exceptions
from fairlead.policy.exceptions import PolicyException

_RETRY = re.compile(
    r'(namespace "(?:[^"\\]|\\.)*") is not known to the policy yet: retry in a moment'
)
"""How policies refuse what a namespace decides on that OPA does not have."""
_LIKE = 0.85
"""How much a misspelt kind resembles the one that it means: `Config` of kubectl is no ConfigMap."""


@dataclass(frozen=True)
class Request:
    """A request, and the document that it comes from. `line` counts from 1; None if it is not
    known.

    `namespace` is that of the request, None without one. `manifest` tells a manifest from an
    AdmissionReview. `invalid` says why API servers refuse the object themselves, as far as its
    kind, its name and its labels go. `remarks` are those of the document.
    """

    path: Path
    line: int | None
    review: dict[str, Any]
    manifest: bool
    namespace: str | None
    invalid: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def refusal(self) -> str | None:
        """The sentence of an API server that refuses an invalid object."""
        return f"an API server does not accept it: {self.invalid}" if self.invalid else None


@dataclass(frozen=True)
class Inputs:
    """What was read: the requests in their order, and the namespaces that are known (name ->
    object).

    `unreadable` is what no kubectl would read, and manifests that contradict others about the
    labels of a namespace. `skipped` counts what stands in folders and is not meant for kubectl, by
    what it is (see manifest_files.Reading). `files` counts the files with requests. They are `live`
    if the namespaces are those of a cluster. `unfit` are the patterns to exclude that nothing fits.
    `exceptions` are those of the manifests and of the cluster (fairlead.policy.exceptions.tree).
    """

    requests: tuple[Request, ...]
    namespaces: Mapping[str, Any]
    unreadable: tuple[InputError, ...]
    skipped: Mapping[str, int]
    live: bool
    unfit: Sequence[str] = ()
    exceptions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> int:
        return len({request.path for request in self.requests})


def read(
    paths: Sequence[Path],
    *,
    namespace: str | None = None,
    namespace_labels: Mapping[str, str] | None = None,
    namespaces: Mapping[str, Any] | None = None,
    operation: str | None = None,
    exclude: Sequence[str] = (),
    kinds: Iterable[Kind] = (),
    exceptions_: Iterable[PolicyException] = (),
) -> Inputs:
    """The requests of files, folders and standard input (files.STDIN), in the order of `paths`.

    Args:
        namespace: the namespace of the manifests; None for the one that they name, or `default`.
        namespace_labels: the labels of each namespace that no manifest of a Namespace describes;
            None if the policies do not know these namespaces.
        namespaces: all namespaces of a cluster (name -> object), instead of `namespace_labels`.
        operation: the operation on the manifests; None for CREATE. For UPDATE, the manifest is also
            the old object.
        exclude: patterns of the files in folders that are left out.
        kinds: the kinds that are known, besides those of Kubernetes itself and those that files
            define.
        exceptions_: those of a cluster.

    Raises UsageError if a file contradicts `namespace` or `operation`, and InputError if there is
    nothing to decide on.
    """
    reading = manifest_files.read(paths, exclude=exclude)
    if not reading.documents and not reading.unreadable:
        raise InputError(
            ", ".join(str(path) for path in paths),
            "holds no AdmissionReview and no manifest in a .yaml, .yml or .json file: name another "
            "file or folder",
        )
    definitions = served_kinds.of_definitions(document.value for document in reading.documents)
    known = served_kinds.by_name([*kinds, *definitions])
    requests = [_request(document, namespace, operation, known) for document in reading.documents]
    described, contradictions = _described(reading.documents)
    by_name = {**(namespaces or {}), **described}
    if namespace_labels is not None:
        for request in requests:
            if request.namespace is not None and request.namespace not in by_name:
                by_name[request.namespace] = _namespace(request.namespace, namespace_labels)
    skipped = Counter(what for _, what in reading.skipped)
    excepting, mistakes = _exceptions(reading.documents, namespace)
    unreadable = (*reading.unreadable, *contradictions, *mistakes)
    return Inputs(
        tuple(requests),
        by_name,
        unreadable,
        skipped,
        live=namespaces is not None,
        unfit=reading.unfit,
        exceptions=exceptions.tree([*exceptions_, *excepting]),
    )


def unknown(inputs: Inputs, request: Request) -> str | None:
    """A sentence that says how to name the labels of the request's namespace, or None if they are
    known.
    """
    name = request.namespace
    if name is None or name in inputs.namespaces:
        return None
    if inputs.live:
        return f'the cluster has no namespace "{name}"'
    return (
        f'no labels of namespace "{name}" were given: add --namespace-labels KEY=VALUE, '
        "its manifest to the files, or --live"
    )


def in_words_for_files(message: str, advice: str | None = None) -> str:
    """A message of the policies without "retry in a moment", or with `advice` in the place of the
    sentence: nothing about a file comes to be known by waiting.
    """
    return _RETRY.sub(lambda match: advice or f"{match[1]} is not known", message)


def _request(
    document: yaml_files.Document, namespace: str | None, operation: str | None, known: Known
) -> Request:
    value, path = document.value, document.path
    manifest = not admission_reviews.is_review(value)
    review = (
        _review_of(value, namespace, operation, path, known)
        if manifest
        else _given(value, namespace, operation, path)
    )
    name = admission_reviews.request_of(review).get("namespace")
    problem = metadata_checks.problem(document)
    mistaken = _no_such_kind(value, known) if manifest else None
    return Request(
        path,
        document.line(()),
        review,
        manifest,
        name if isinstance(name, str) else None,
        invalid=problem.problem if problem else mistaken,
        remarks=(*document.remarks, *(_unknown_kind(value, known) if manifest else ())),
    )


def _no_such_kind(value: Mapping[str, Any], known: Known) -> str | None:
    """What is wrong with a kind that its group does not have, but Kubernetes has by a like name or
    in another group. Only a group with a dot can be that of a CustomResourceDefinition.
    """
    group, _ = admission_reviews.group_version(value)
    kind = value["kind"]
    if "." in group or (group, kind) in known:
        return None
    own = [name for each, name in known if each == group]
    no_such_kind = f"{value['apiVersion']} has no kind {kind!r}"
    if meant := difflib.get_close_matches(kind, own, 1, _LIKE):
        return f"{no_such_kind}: did you mean {meant[0]}?"
    groups = sorted(each or "core" for each, name in known if name == kind and "." not in each)
    return f"{no_such_kind}: it is one of the group {' and of '.join(groups)}" if groups else None


def _unknown_kind(value: Mapping[str, Any], known: Known) -> tuple[str, ...]:
    """A remark about a kind of which nobody says whether it belongs to namespaces."""
    group, _ = admission_reviews.group_version(value)
    if (group, value["kind"]) in known or admission_reviews.is_of_pods(value["kind"]):
        return ()
    namespace = (value.get("metadata") or {}).get("namespace")
    counts = "" if namespace else ", and counts as an object of the cluster"
    way_out = (
        "name the file with its CustomResourceDefinition, too, or add --live"
        if "." in group
        else "Kubernetes itself has to have it; --live asks the cluster"
    )
    return (
        f"{value['kind']} of {group or 'the core group'} is a kind that is not known{counts}: "
        f"{way_out}",
    )


def _review_of(
    manifest: dict[str, Any],
    namespace: str | None,
    operation: str | None,
    path: Path,
    known: Known,
) -> dict[str, Any]:
    own_namespace = (manifest.get("metadata") or {}).get("namespace")
    if namespace and own_namespace and own_namespace != namespace:
        raise UsageError(
            f"{path}: is for namespace {own_namespace!r}, not {namespace!r}: leave out --namespace"
        )
    old = manifest if operation == "UPDATE" else None
    review = admission_reviews.build(
        manifest, operation=operation or "CREATE", namespace=namespace, old=old, kinds=known
    )
    # The same manifest gets the same answer, down to the uid in it.
    request = {**review["request"], "uid": ""}
    uid = uuid5(NAMESPACE_OID, json.dumps(request, sort_keys=True))
    return {**review, "request": {**review["request"], "uid": str(uid)}}


def _given(
    review: dict[str, Any], namespace: str | None, operation: str | None, path: Path
) -> dict[str, Any]:
    request = admission_reviews.request_of(review)
    for option, expected in (("namespace", namespace), ("operation", operation)):
        has = request.get(option)
        if expected not in (None, has):
            raise UsageError(
                f"{path}: is a review with {option} {has!r}, not {expected!r}: leave out --{option}"
            )
    return review


def _described(
    documents: Sequence[yaml_files.Document],
) -> tuple[dict[str, Any], list[InputError]]:
    """The namespaces of which there are manifests, name -> object, and the manifests that give one
    of them other labels than the first.
    """
    described: dict[str, tuple[Mapping[str, str], yaml_files.Document]] = {}
    contradictions = []
    for document in documents:
        value = document.value
        metadata = value.get("metadata") or {}
        name, labels = metadata.get("name"), metadata.get("labels") or {}
        if (value["apiVersion"], value["kind"]) != ("v1", "Namespace") or not name:
            continue
        if not isinstance(labels, dict):
            continue  # no API server accepts it, and the object itself is refused for that
        before, first = described.setdefault(name, (labels, document))
        if labels != before:
            problem = (
                f"gives namespace {name!r} other labels than {_place(first)}, by which its objects "
                "are judged: evaluate the manifests of one cluster at a time"
            )
            line = document.line(["metadata", "labels"])
            contradictions.append(InputError(document.path, problem, line=line))
    return {
        name: _namespace(name, labels) for name, (labels, _) in described.items()
    }, contradictions


def _exceptions(
    documents: Sequence[yaml_files.Document], namespace: str | None
) -> tuple[list[PolicyException], list[InputError]]:
    """The exceptions of which there are manifests, and the manifests that no API server stores."""
    excepting, mistakes = [], []
    for document in documents:
        value = document.value
        if (value["apiVersion"], value["kind"]) != (own_kinds.VERSION, exceptions.EXCEPTION):
            continue
        metadata = value.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        in_namespace = {"namespace": namespace or "default", **metadata}
        try:
            excepting.append(PolicyException.read({**value, "metadata": in_namespace}))
        except UsageError as error:
            line = document.line(["spec"])
            mistakes.append(InputError(document.path, str(error), line=line))
    return excepting, mistakes


def _namespace(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": dict(labels)}}


def _place(document: yaml_files.Document) -> str:
    line = document.line(())
    return f"{document.path}:{line}" if line else str(document.path)

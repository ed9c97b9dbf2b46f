"""Checks one answer of OPA against the contract of node-pool placement (docs/node-pool.md).

- If a new pod of a mapped namespace is allowed, it has the assignment after the patch, has no
  nodeName, and is otherwise unchanged but for the note of its final state. A pod of an unknown
  namespace is never allowed. The same holds for an update that removes the last gate of a pod
  without a pool's nodeSelector. Any other update gets no patch, and a changed nodeSelector
  satisfies the assignment.
- Besides pods, only DaemonSets are patched, in the nodeSelector, tolerations and note of their
  template. Afterwards the template has the assignment. In a namespace without a pool, nothing is
  added.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import jsonpatch
import jsonpointer

from fairlead.admission.decisions import NOTE
from fairlead.kube import admission_reviews
from fairlead.settings.models import Pool, Settings
from lab.fuzz.review_bodies import LABEL, NAMESPACES, shallow
from lab.fuzz.search import Violation

_LONGEST_UID = 256
"""The most characters of a uid. The answer does not repeat a longer one."""


@dataclass(frozen=True)
class Number:
    """A JSON number as its text, because Python might round it or take minutes to parse it."""

    text: str


class Judgement:
    """Compares one answer with the contract. `asked` is the review, None if it was unreadable."""

    def __init__(self, asked: Any, response: dict[str, Any], settings: Settings) -> None:
        self._request = as_object(as_object(asked).get("request"))
        self._asked = asked
        self._allowed = response["allowed"]
        self._uid = response["uid"]
        self._settings = settings
        self._patch = _patch(response) if "patch" in response else None

    def outcome(self) -> str:
        """The outcome. Raises Violation if the answer breaks the contract."""
        uid = self._request.get("uid") if self._is_review() else None
        readable = self._is_review() and self._says_what_is_asked()
        if readable and _comparable(self._uid) != _comparable(uid):
            raise Violation(f"the answer's uid is not the request's, {uid!r}")
        if not readable:
            if self._allowed:
                raise Violation("a review is allowed that does not say what is asked")
            return "denied: not readable"
        kind = self._request["kind"]
        above = self._request.get("subResource") in (None, "")
        operation = self._request["operation"]
        if (
            (kind.get("group", ""), kind["kind"]) == ("", "Pod")
            and above
            and operation in ("CREATE", "UPDATE")
        ):
            return self._created() if operation == "CREATE" else self._updated()
        if not self._allowed:
            return "denied: no pod"
        if self._patch is not None and (not above or operation not in ("CREATE", "UPDATE")):
            raise Violation("a subresource, or what goes, is patched")
        if self._patch is None:
            return "allowed: no pod"
        self._template_patched()
        return "allowed: no pod, patched"

    def _is_review(self) -> bool:
        document = as_object(self._asked)
        return (document.get("apiVersion"), document.get("kind")) == (
            "admission.k8s.io/v1",
            "AdmissionReview",
        ) and isinstance(document.get("request"), dict)

    def _says_what_is_asked(self) -> bool:
        kind = self._request.get("kind")
        return (
            isinstance(kind, dict)
            and isinstance(kind.get("kind"), str)
            and isinstance(kind.get("group", ""), str)
            and isinstance(self._request.get("operation"), str)
            and self._request["operation"] in admission_reviews.OPERATIONS
            and isinstance(self._request.get("uid"), str)
            and 1 <= len(self._request["uid"]) <= _LONGEST_UID
            and isinstance(self._request.get("subResource", ""), str | None)
        )

    def _created(self) -> str:
        if not self._allowed:
            return "denied: pod"
        return self._check_placed_pod(exactly=self._settings.pod_selector == "reject")

    def _check_placed_pod(self, *, exactly: bool) -> str:
        """Check an allowed pod. If `exactly`, its nodeSelector may have nothing but the
        assignment.
        """
        pod = self._request.get("object")
        spec = as_object(as_object(pod).get("spec"), None)
        if spec is None:
            raise Violation("a pod without a spec is allowed")
        if self._request["operation"] == "CREATE" and self._mirror(spec):
            return "allowed: mirror pod"
        pool = self._pool()
        if pool is None:
            if self._patch is not None:
                raise Violation("a pod is patched in a namespace without a pool")
            return "allowed: pod of no pool"
        after = as_object(self._patched().get("spec"))
        if after.get("nodeName") not in (None, ""):
            raise Violation("a pod with a nodeName is allowed in a mapped namespace")
        self._assigned(after, pool, exactly=exactly)
        if _but_note(self._patched()) != _but_note(pod):
            raise Violation("the patch changes more of the pod than its placement and its note")
        self._noted_as_placed()
        return "allowed: pod placed"

    def _noted_as_placed(self) -> None:
        """Check that the note of a new pod, by which API servers know its final state, says what
        the pod has. Raises Violation.
        """
        pod = self._patched()
        annotations = as_object(as_object(pod.get("metadata")).get("annotations"))
        if self._request.get("operation") != "CREATE" or NOTE not in annotations:
            return
        spec = as_object(pod.get("spec"))
        has = {
            "nodeSelector": spec.get("nodeSelector") or {},
            "tolerations": spec.get("tolerations") or [],
        }
        if json.loads(annotations[NOTE], parse_int=Number, parse_float=Number) != has:
            raise Violation(f"the pod has {has}, but its note says {annotations[NOTE]!r}")

    def _template_patched(self) -> None:
        """Check the patch of an object that is not a pod. Raises Violation if it changes too
        much.
        """
        kind = self._request["kind"]
        if (kind.get("group", ""), kind["kind"]) != ("apps", "DaemonSet"):
            raise Violation("what is neither a pod nor a DaemonSet is patched")
        objects = (self._request.get("object"), self._patched())
        before, after = (
            as_object(as_object(as_object(item).get("spec")).get("template")) for item in objects
        )
        if _but_template(objects[0]) != _but_template(objects[1]) or _but_note(before) != _but_note(
            after
        ):
            raise Violation(
                "the patch changes more than the template's nodeSelector, tolerations and note"
            )
        old, new = as_object(before.get("spec")), as_object(after.get("spec"))
        if pool := self._pool():
            self._assigned(new, pool, exactly=self._settings.pod_selector == "reject")
            return
        tolerations = [
            toleration
            for toleration in as_list(new.get("tolerations"))
            if toleration not in as_list(old.get("tolerations"))
        ]
        selector = [
            pair for pair in as_object(new.get("nodeSelector")).items() if pair not in _pairs(old)
        ]
        if tolerations or selector:
            raise Violation("the patch adds to a template in a namespace without a pool")

    def _updated(self) -> str:
        if not self._allowed:
            return "denied: pod's update"
        new, old = (
            as_object(as_object(self._request.get(name)).get("spec"), None)
            for name in ("object", "oldObject")
        )
        if new is None or old is None:
            raise Violation("an update of a pod without a spec is allowed")
        before = as_object(old.get("nodeSelector"))
        if (
            as_list(old.get("schedulingGates"))
            and not as_list(new.get("schedulingGates"))
            and not self._some_pools(before)
        ):
            return self._check_placed_pod(exactly=False)
        if self._patch is not None:
            raise Violation("an update of a pod is patched that takes no last gate")
        if (new.get("nodeSelector") or {}) == (old.get("nodeSelector") or {}):
            return "allowed: pod's update"
        pool = self._pool()
        if pool is not None:
            selector = as_object(new.get("nodeSelector"))
            if (
                pool.node_selector.items()
                - {k: v for k, v in selector.items() if isinstance(v, str)}.items()
            ):
                raise Violation("an update may change the nodeSelector so that it leaves the pool")
        return "allowed: pod's update within its pool"

    def _some_pools(self, selector: Mapping[str, Any]) -> bool:
        """Whether the nodeSelector contains that of any pool."""
        if not self._settings.pools:
            value = selector.get(self._settings.node_label)
            return isinstance(value, str) and value != ""
        selectors = (self._settings.assignment(name).node_selector for name in self._settings.pools)
        return any(
            all(selector.get(key) == value for key, value in assignment.items())
            for assignment in selectors
        )

    def _pool(self) -> Pool | None:
        """The pool of the pod's namespace, None if it has none. Raises Violation if the pod must
        not be allowed at all.
        """
        namespace = self._request.get("namespace")
        if not isinstance(namespace, str) or namespace not in NAMESPACES:
            raise Violation(f"a pod is allowed in namespace {namespace!r}, which nobody knows")
        name = NAMESPACES[namespace].get("labels", {}).get(LABEL, self._settings.default_pool)
        if not name:
            return None
        try:
            return self._settings.assignment(name)
        except KeyError:
            raise Violation(
                f"a pod is allowed in a namespace of the undeclared pool {name!r}"
            ) from None

    def _assigned(self, spec: Mapping[str, Any], pool: Pool, *, exactly: bool) -> None:
        selector = as_object(spec.get("nodeSelector"))
        required = pool.node_selector
        if {key: selector.get(key) for key in required} != required or (
            exactly and selector != required
        ):
            raise Violation(
                "a pod of a mapped namespace is allowed with nodeSelector "
                f"{spec.get('nodeSelector')!r}"
            )
        tolerations = spec.get("tolerations")
        for toleration in pool.tolerations:
            required_toleration = toleration.model_dump(by_alias=True, exclude_none=True)
            if not any(_covers(wide, required_toleration) for wide in as_list(tolerations)):
                raise Violation(f"a pod is allowed without the pool's tolerations: {tolerations!r}")

    def _mirror(self, spec: Mapping[str, Any]) -> bool:
        """Whether the pod is a mirror pod that its own node creates."""
        annotations = as_object(
            as_object(as_object(self._request.get("object")).get("metadata")).get("annotations")
        )
        user, node = as_object(self._request.get("userInfo")), spec.get("nodeName")
        return (
            annotations.get("kubernetes.io/config.mirror", False) is not False
            and "system:nodes" in as_list(user.get("groups"))
            and isinstance(node, str)
            and user.get("username") == f"system:node:{node}"
        )

    def _patched(self) -> Any:
        """The object after the patch. Raises Violation if the patch does not apply."""
        manifest = self._request.get("object")
        if self._patch is None:
            return manifest
        try:
            return jsonpatch.apply_patch(deepcopy(manifest), self._patch)
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
            raise Violation(f"the patch does not apply to the object: {error}") from None


def _patch(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations of the patch, with numbers as their text, as in the request."""
    text = shallow(base64.b64decode(response["patch"]).decode())
    patch = base64.b64encode(text.encode())
    admission_reviews.patch_of({"response": {**response, "patch": patch}})  # raises if malformed
    operations: list[dict[str, Any]] = json.loads(text, parse_int=Number, parse_float=Number)
    return operations


def as_object(value: Any, other: Any = {}) -> Any:  # noqa: B006 - never changed
    return value if isinstance(value, dict) else other


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _without(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: part for name, part in value.items() if name != key}


def _pairs(spec: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(as_object(spec.get("nodeSelector")).items())


def _but_placement(pod: Any) -> dict[str, Any]:
    """A pod or a template without the fields of an assignment."""
    spec = as_object(as_object(pod).get("spec"))
    return {**as_object(pod), "spec": _without(_without(spec, "nodeSelector"), "tolerations")}


def _but_template(workload: Any) -> dict[str, Any]:
    return {
        **as_object(workload),
        "spec": _without(as_object(as_object(workload).get("spec")), "template"),
    }


def _but_note(template: Mapping[str, Any]) -> dict[str, Any]:
    """A pod or a template without the fields of an assignment and without its note."""
    metadata = template.get("metadata")
    if not isinstance(metadata, dict):
        return _but_placement(template)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        annotations = _without(annotations, NOTE)
    return {
        **_but_placement(template),
        "metadata": {**metadata, "annotations": annotations or None},
    }


def _covers(wide: Any, narrow: Mapping[str, Any]) -> bool:
    """Whether a pod that tolerates `wide` also tolerates `narrow`, a toleration with Exists and
    without an end (docs/node-pool.md).
    """
    if wide == narrow:
        return True
    exists = isinstance(wide, dict) and wide.get("operator") == "Exists"
    return (
        exists
        and wide.get("key") in (None, "", narrow.get("key"))
        and wide.get("effect") in (None, "", narrow.get("effect"))
        and wide.get("tolerationSeconds") in (None, "")
    )


def _comparable(text: Any) -> Any:
    """The text with runs of U+FFFD as one, because OPA returns invalid Unicode (half a surrogate
    pair, broken UTF-8) as one or several of them.
    """
    return re.sub("[\ud800-\udfff\ufffd]+", "\ufffd", text) if isinstance(text, str) else text

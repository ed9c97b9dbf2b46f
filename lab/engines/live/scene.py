"""Runs a case on a real API server: creates its namespace and objects, sends the request, and
cleans up."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.engines.base import Decision, Inexpressible, Outcome, Undecided
from fairlead.engines.live.marker import Marker
from fairlead.kube.api_paths import path_of
from fairlead.kube.clients import Objects
from fairlead.kube.errors import Unreachable
from fairlead.kube.responses import Response
from fairlead.policy.cases import Case, Request
from lab.engines.live.answers import carry, decision
from lab.engines.live.namespaces import (
    DELETION,
    Knows,
    Namespaces,
    needed,
    wait_until_gone,
)

SETUP_USER = "fairlead:setup"
"""Who creates the objects that a case starts from. No intent may have a say in what it does."""

_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
_DEADLINE = 60.0
"""Seconds within which a request has to succeed that others disturb."""

_CONTAINERS = [{"name": "c", "image": "nginx"}]
# The pod that a request to a subresource needs. It is unscheduled, so that it can be bound, and
# resized: the simulated nodes do not say that they can do that.
_UNSCHEDULED = {"schedulerName": "nobody", "containers": _CONTAINERS}


class _Gone(Exception):
    """The object that the case starts from was deleted meanwhile. kwok deletes pods by name without
    their uid, and may have meant an earlier pod.
    """


class Scene:
    """An API server in which the intents are in force. `engine_knows` says whether the engine
    itself knows the labels of a namespace, `looks_up` whether it looks up those that it does not.
    """

    def __init__(
        self,
        api: Objects,
        marker: Marker,
        *,
        engine_knows: Knows = lambda _name, _labels: True,
        looks_up: bool = True,
    ) -> None:
        self._api = api
        self._namespaces = Namespaces(api, marker, engine_knows, looks_up=looks_up)

    def decide(self, case: Case, groups: Sequence[str] = ()) -> Outcome:
        """The outcome of `case`; its user is also in these `groups`. Only the case's namespace
        stays afterwards. Raises Unreachable if the API server does not answer.
        """
        for manifest in (case.request.manifest, case.request.old_object):
            if manifest and not case.request.sub_resource and not self._api.serves(manifest):
                return Inexpressible(
                    f"the API server has no kind {manifest['kind']} in {manifest['apiVersion']}"
                )
        user = _user(case.request, groups)
        try:
            return self._decide(case, user)
        except Unreachable:
            raise
        except FairleadError as error:
            return Undecided(str(error))

    def _decide(self, case: Case, user: Mapping[str, Any] | None) -> Decision:
        namespace = case.namespace.name if case.namespace else None
        target = _target(case.request)
        self._namespaces.set(case.namespace)
        if target is None:
            return self._create(case, namespace, user)

        def attempt() -> Decision | None:
            self._put_in_place(target, namespace)
            try:
                return self._ask(case.request, namespace, target, user)
            except _Gone:
                return None
            finally:
                self._remove(target, namespace)

        return waiting.until(
            attempt, deadline=_DEADLINE, what=f"the {target['kind']} stays until the request"
        )

    def _create(
        self, case: Case, namespace: str | None, user: Mapping[str, Any] | None
    ) -> Decision:
        with self._owned(case.request.manifest) as manifest:
            path = path_of(manifest, namespace)
            # The plugin NodeRestriction reads nodes from a cache.
            unseen = [f'node "{owner["name"]}" not found' for owner in _owning_nodes(manifest)]

            def attempt() -> Response | None:
                answer = self._api.request("POST", path, manifest, query=_DRY_RUN, user=user)
                return None if any(text in answer.message for text in unseen) else answer

            answer = waiting.until(
                attempt, deadline=_DEADLINE, what="the API server has seen the node of the pod"
            )
            return decision(answer, manifest)

    @contextlib.contextmanager
    def _owned(self, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The manifest with the uid of the node that owns it, if any, because the plugin
        NodeRestriction compares it.

        If the cluster has no such node, a Node object without a machine exists during the block.
        """
        owned = copy.deepcopy(dict(manifest))
        with contextlib.ExitStack() as created:
            for owner in _owning_nodes(owned):
                owner["uid"] = created.enter_context(self._node(owner["name"]))["metadata"]["uid"]
            yield owned

    @contextlib.contextmanager
    def _node(self, name: str) -> Iterator[dict[str, Any]]:
        """The Node, created for the block if the cluster has none of that name."""
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "spec": {"unschedulable": True},
        }
        path = path_of(node, None, name)
        answer = self._api.request("GET", path)
        if answer.ok:
            yield answer.body
            return
        answer = self._api.request("POST", path_of(node, None), node)
        try:
            yield needed(answer, f"creating node {name}")
        finally:
            self._api.request("DELETE", path, DELETION)

    def _ask(
        self,
        request: Request,
        namespace: str | None,
        target: Mapping[str, Any],
        user: Mapping[str, Any] | None,
    ) -> Decision:
        subresource = [request.sub_resource] if request.sub_resource else []
        path = path_of(target, namespace, _name(target), *subresource)
        if request.operation == "CONNECT":
            options = {
                k: v
                for k, v in request.manifest.items()
                if k not in ("apiVersion", "kind", "metadata")
            }
            answer = self._api.request("POST", path, query=_texts(options), user=user)
            # Only admission matters. The request fails afterwards, because nothing here speaks the
            # protocol that it upgrades to.
            return Decision(
                not answer.denied, answer.message if answer.denied else "", None, answer.warnings
            )
        if request.operation == "UPDATE":
            return self._update(request, path, user)
        if request.operation == "DELETE":
            options = DELETION | {"dryRun": ["All"]}
            answer = _of_live(self._api.request("DELETE", path, options, user=user))
            return Decision(answer.ok, answer.message, None, answer.warnings)
        answer = self._api.request("POST", path, request.manifest, query=_DRY_RUN, user=user)
        return decision(_of_live(answer), request.manifest)

    def _update(self, request: Request, path: str, user: Mapping[str, Any] | None) -> Decision:
        """Update the live object with the case's change. The live object is used because it has
        defaults that must not change.
        """
        before = request.old_object
        assert before is not None  # noqa: S101 - an UPDATE has one, see Request._objects
        # A subresource that gets another kind of object has an object of its own.
        is_own = before["kind"] != (request.parent or before)["kind"]
        of = path if is_own or not request.sub_resource else path.rpartition("/")[0]

        def attempt() -> Response | None:
            live = _of_live(self._api.request("GET", of))
            action = f"reading the {before['kind']} that the case starts from"
            changed = carry(needed(live, action), before, request.manifest)
            answer = _of_live(self._api.request("PUT", path, changed, query=_DRY_RUN, user=user))
            # The scheduler or the node has changed it meanwhile.
            return None if answer.status == 409 else answer

        answer = waiting.until(
            attempt, deadline=_DEADLINE, what=f"updating {path} without a conflict"
        )
        return decision(answer, request.manifest)

    def _put_in_place(self, manifest: Mapping[str, Any], namespace: str | None) -> None:
        """Create the object that exists before the request, by a user whom every intent exempts, so
        that none changes or refuses it.
        """
        if manifest["kind"] == "Namespace":
            labels = manifest["metadata"].get("labels") or {}
            self._namespaces.label(_name(manifest), labels)
            return
        answer = self._api.request(
            "POST",
            path_of(manifest, namespace),
            manifest,
            query={"fieldValidation": "Strict"},
            user={"username": SETUP_USER},
        )
        needed(answer, f"creating the {manifest['kind']} that the case starts from")

    def _remove(self, manifest: Mapping[str, Any], namespace: str | None) -> None:
        if manifest["kind"] == "Namespace":
            return
        path = path_of(manifest, namespace, _name(manifest))
        if manifest["metadata"].get("finalizers"):
            waiting.until(
                lambda: self._without_finalizers(path),
                deadline=_DEADLINE,
                what=f"taking the finalizers from {path}",
            )
        self._api.request("DELETE", path, DELETION, user={"username": SETUP_USER})
        wait_until_gone(self._api, path)

    def _without_finalizers(self, path: str) -> bool:
        """Take its finalizers from an object; False if others changed it meanwhile."""
        live = self._api.request("GET", path)
        if live.status == 404:
            return True
        bare = {**live.body, "metadata": {**live.body["metadata"], "finalizers": []}}
        return self._api.request("PUT", path, bare, user={"username": SETUP_USER}).status != 409


def _owning_nodes(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The owner references to nodes."""
    owners = (manifest.get("metadata") or {}).get("ownerReferences") or []
    return [
        owner for owner in owners if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Node")
    ]


def _of_live(answer: Response) -> Response:
    """The answer to a request about the object that the case starts from. Raises _Gone."""
    if answer.status == 404 and not answer.denied:
        raise _Gone
    return answer


def _user(request: Request, groups: Sequence[str]) -> Mapping[str, Any] | None:
    """Who sends the request; None for the client's own user."""
    if not groups:
        return request.user_info
    user = request.user_info or {"username": "kubernetes-admin"}
    return {**user, "groups": [*user.get("groups", ()), *groups]}


def _target(request: Request) -> dict[str, Any] | None:
    """The object that has to exist before the request; None if the request creates it."""
    if request.parent is not None:
        return _complete(request.parent, request)
    if request.old_object is None and not request.sub_resource:
        return None
    metadata = {"name": _name(request.manifest)}
    target = request.old_object or {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    if target["kind"] == "Pod" and request.sub_resource:
        return {**target, "spec": {**_UNSCHEDULED, **target.get("spec", {})}}
    return target


def _complete(parent: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The parent of a subresource, which a case may name only by its kind: with the name of what is
    sent, and as a workload with the replicas that its Scale has before.
    """
    metadata = {"name": _name(request.manifest), **(parent.get("metadata") or {})}
    before = (request.old_object or {}).get("spec") or {}
    labels = {"app": metadata["name"]}
    spec = {
        "replicas": before.get("replicas", 0),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": _CONTAINERS}},
        **(parent.get("spec") or {}),
    }
    scaled = request.sub_resource == "scale"
    return {**parent, "metadata": metadata, **({"spec": spec} if scaled else {})}


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "target")


def _texts(options: Mapping[str, Any]) -> dict[str, str | Sequence[str]]:
    """Options as values of a URL query."""
    return {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in options.items()
    }

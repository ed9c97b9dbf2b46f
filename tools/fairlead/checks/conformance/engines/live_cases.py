"""Runs a case on a real API server: creates its namespace and objects, sends the request, and
cleans up."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.checks.conformance.cases import Case, Namespace
from fairlead.checks.conformance.engines.base import Decision, Inexpressible, Outcome, Undecided
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.kube.errors import Unreachable
from fairlead.kube.rest import Response, Rest, path_of
from fairlead.settings.models import Settings

_DRY_RUN = {"dryRun": "All", "fieldValidation": "Strict"}
_DELETION = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Background",  # otherwise a Job's pods would stay
}
_DEADLINE = 10.0
"""Seconds within which the API server and OPA must know changed labels. It takes milliseconds."""

_CONTAINERS = [{"name": "c", "image": "nginx"}]
# A pod that shows which pool is in force for a namespace: its nodeName is refused in every pool.
_PROBE = {"nodeName": "nowhere-0", "containers": _CONTAINERS}
# The pod that a request to a subresource needs. It is unscheduled, so that it can be bound.
_TARGET = {"schedulerName": "nobody", "containers": _CONTAINERS}
# The tolerations that the API server's plugin DefaultTolerationSeconds adds to every pod.
_OWN_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


class _Gone(Exception):
    """The object that the case starts from was deleted meanwhile. kwok deletes pods by name without
    their uid, and may have meant an earlier pod.
    """


class Scene:
    """A cluster in which `settings` are in force."""

    def __init__(self, rest: Rest, settings: Settings) -> None:
        self._rest = rest
        self._settings = settings
        self._settled: dict[str, dict[str, str]] = {}
        self._patience = _DEADLINE
        if settings.pools:
            self._wait_for_namespace_webhook()

    def decide(self, case: Case) -> Outcome:
        """The outcome of `case`. Only its namespace stays afterwards. Raises Unreachable if the API
        server does not answer.
        """
        for manifest in (case.request.manifest, case.request.old_object):
            if manifest and not case.request.sub_resource and not self._rest.serves(manifest):
                return Inexpressible(
                    f"the API server has no kind {manifest['kind']} in {manifest['apiVersion']}"
                )
        try:
            return self._decide(case)
        except Unreachable:
            raise
        except FairleadError as error:
            return Undecided(str(error))

    def _decide(self, case: Case) -> Decision:
        request, namespace = case.request, case.namespace
        name = namespace.name if namespace else None
        before = request.old_object
        if before is None and request.sub_resource:
            of = {"name": _name(request.manifest)}
            before = {"apiVersion": "v1", "kind": "Pod", "metadata": of, "spec": _TARGET}
        if before is None:
            self._set(namespace)
            return self._create(case, name)

        def attempt() -> Decision | None:
            self._put_in_place(before, namespace)
            try:
                self._set(namespace)
                return self._ask(case, name, before)
            except _Gone:
                return None
            finally:
                self._remove(before, name)

        return waiting.until(
            attempt, deadline=_DEADLINE, what=f"the {before['kind']} stays until the request"
        )

    def _create(self, case: Case, namespace: str | None) -> Decision:
        with self._owned(case.request.manifest) as manifest:
            path, user = path_of(manifest, namespace), case.request.user_info
            return decision(
                self._rest.call("POST", path, manifest, query=_DRY_RUN, user=user), manifest
            )

    @contextlib.contextmanager
    def _owned(self, manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The manifest with the uid of the node that owns it, if any, because the plugin
        NodeRestriction compares it.

        If the cluster has no such node, a Node object without a machine exists during the block.
        """
        metadata = dict(manifest.get("metadata") or {})
        owners = metadata.get("ownerReferences") or []
        with contextlib.ExitStack() as created:
            for index, owner in enumerate(owners):
                if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Node"):
                    uid = created.enter_context(self._node(owner["name"]))["metadata"]["uid"]
                    metadata["ownerReferences"] = [
                        *owners[:index],
                        {**owner, "uid": uid},
                        *owners[index + 1 :],
                    ]
            yield {**manifest, "metadata": metadata}

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
        there = self._rest.call("GET", path)
        if there.ok:
            yield there.body
            return
        yield _needed(self._rest.call("POST", path_of(node, None), node), f"creating node {name}")
        self._rest.call("DELETE", path, _DELETION)

    def _ask(self, case: Case, namespace: str | None, before: Mapping[str, Any]) -> Decision:
        request = case.request
        below = [request.sub_resource] if request.sub_resource else []
        path = path_of(before, namespace, _name(before), *below)
        if request.operation == "CONNECT":
            options = {
                k: v
                for k, v in request.manifest.items()
                if k not in ("apiVersion", "kind", "metadata")
            }
            answer = self._rest.call("POST", path, query=_texts(options), user=request.user_info)
            # Only admission matters. The request fails afterwards, because nothing here speaks the
            # protocol that it upgrades to.
            return Decision(
                not answer.denied, answer.message if answer.denied else "", None, answer.warnings
            )
        if request.operation == "UPDATE":
            return self._update(case, namespace, path, before)
        if request.operation == "DELETE":
            answer = self._rest.call(
                "DELETE", path, _DELETION | {"dryRun": ["All"]}, user=request.user_info
            )
            return Decision(answer.ok, answer.message, None, answer.warnings)
        answer = self._rest.call(
            "POST", path, request.manifest, query=_DRY_RUN, user=request.user_info
        )
        return decision(answer, request.manifest)

    def _update(
        self, case: Case, namespace: str | None, path: str, before: Mapping[str, Any]
    ) -> Decision:
        """Update the live object with the case's change. The live object is used because it has
        defaults that must not change.
        """

        def attempt() -> Response | None:
            live = self._rest.call("GET", path_of(before, namespace, _name(before)))
            if live.status == 404:
                raise _Gone
            what = f"reading the {before['kind']} that the case starts from"
            changed = carry(_needed(live, what), before, case.request.manifest)
            answer = self._rest.call(
                "PUT", path, changed, query=_DRY_RUN, user=case.request.user_info
            )
            # The scheduler or the node has changed it meanwhile.
            return None if answer.status == 409 else answer

        answer = waiting.until(
            attempt, deadline=_DEADLINE, what=f"updating {path} without a conflict"
        )
        return decision(answer, case.request.manifest)

    def _put_in_place(self, manifest: Mapping[str, Any], namespace: Namespace | None) -> None:
        """Create the objects that exist before the request, in a namespace that is opted out, so
        that no policy changes them.
        """
        if manifest["kind"] == "Namespace":
            labels = manifest["metadata"].get("labels") or {}
            self._labelled(Namespace(name=_name(manifest), labels=labels))
            return
        if namespace:
            self._set(Namespace(name=namespace.name, labels={self._settings.namespace_label: ""}))
        name = namespace.name if namespace else None
        answer = self._rest.call(
            "POST", path_of(manifest, name), manifest, query={"fieldValidation": "Strict"}
        )
        _needed(answer, f"creating the {manifest['kind']} that the case starts from")

    def _remove(self, manifest: Mapping[str, Any], namespace: str | None) -> None:
        if manifest["kind"] == "Namespace":
            return
        path = path_of(manifest, namespace, _name(manifest))
        if manifest["metadata"].get("finalizers"):
            live = self._rest.call("GET", path).body
            self._rest.call(
                "PUT", path, {**live, "metadata": {**live["metadata"], "finalizers": []}}
            )
        self._rest.call("DELETE", path, _DELETION)
        self._wait_until_gone(path)

    def _set(self, namespace: Namespace | None) -> None:
        """Create or change the namespace as the case says, and wait until the API server and OPA
        know it, unless the case says otherwise.
        """
        if namespace is None or self._settled.get(namespace.name) == namespace.labels:
            return
        path = _path(namespace.name)
        self._settled.pop(namespace.name, None)
        if namespace.state != "known":
            if self._rest.call("GET", path).ok:
                _needed(
                    self._rest.call("DELETE", path, _DELETION),
                    f"deleting namespace {namespace.name}",
                )
                self._wait_until_gone(path)
            if namespace.state == "new":
                self._labelled(namespace)
            return
        self._labelled(namespace)
        self._wait_until_known(namespace)
        self._settled[namespace.name] = dict(namespace.labels)

    def _labelled(self, namespace: Namespace) -> None:
        """Create or relabel the namespace, so that it has exactly these labels."""
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace.name, "labels": dict(namespace.labels)},
        }
        answer = self._rest.call("PUT", _path(namespace.name), manifest)
        if answer.status == 404:
            answer = self._rest.call("POST", path_of(manifest, None), manifest)
            # A controller creates the service account soon. The API server refuses pods until then.
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default"},
            }
            self._rest.call("POST", path_of(account, namespace.name), account)
        _needed(answer, f"setting the labels of namespace {namespace.name}")

    def _wait_until_known(self, namespace: Namespace) -> None:
        """Wait until decisions follow the namespace's current labels, by pods that every pool
        refuses.

        The API server applies changes of the mutating and the validating webhooks separately, and
        while one is ahead, a good pod is refused. So both are checked: a pod goes to the mutating
        webhook first, a Deployment only to the validating one.
        """
        pool = namespace.labels.get(self._settings.namespace_label, self._settings.default_pool)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"}}

        def asked(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> Response:
            body = {**manifest, "spec": spec}
            return self._rest.call("POST", path_of(manifest, namespace.name), body, query=_DRY_RUN)

        def known() -> bool:
            answers = [asked(pod, _PROBE), asked(deployment, _workload(_PROBE))]
            if not pool:
                return all(answer.ok and not answer.warnings for answer in answers)
            messages = ["; ".join((answer.message, *answer.warnings)) for answer in answers]
            known_to = (
                f'namespace "{namespace.name}"' in reason
                and (f'pool "{pool}"' in reason or f"={pool}," in reason)
                for reason in messages
            )
            return all(known_to) and asked(pod, {"containers": _CONTAINERS}).status < 500

        self._wait(known, f"namespace {namespace.name} is known with pool {pool or '(none)'}")

    def _wait_for_namespace_webhook(self) -> None:
        """Wait until the webhook for namespaces is in force, which is soon after it is applied.
        Pods do not show that.
        """
        undeclared = next(
            name
            for name in map("undeclared-{}".format, range(1000))
            if name not in self._settings.pools
        )
        labels = {self._settings.namespace_label: undeclared}
        manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": "probe", "labels": labels},
        }

        def reviewed() -> bool:
            return bool(
                self._rest.call("POST", path_of(manifest, None), manifest, query=_DRY_RUN).warnings
            )

        with contextlib.suppress(FairleadError):  # a failure shows up in the cases
            self._wait(reviewed, "namespaces are reviewed")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            waiting.until(condition, deadline=self._patience, what=what, pause=0.01)
        except FairleadError:
            self._patience = 1.0  # it is not a matter of time, and every further case would wait
            raise

    def _wait_until_gone(self, path: str) -> None:
        waiting.until(
            lambda: self._rest.call("GET", path).status == 404,
            deadline=60.0,
            what=f"{path} is gone",
        )


def _workload(spec: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app": "probe"}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def _path(namespace: str) -> str:
    return path_of({"apiVersion": "v1", "kind": "Namespace"}, None, namespace)


def _name(manifest: Mapping[str, Any]) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "target")


def _needed(answer: Response, what: str) -> dict[str, Any]:
    if not answer.ok:
        raise FairleadError(f"{what}: the API server says {answer.status}: {answer.message}")
    return answer.body


def decision(answer: Response, manifest: Mapping[str, Any]) -> Decision:
    """The decision in the API server's answer to a request for `manifest`, without the parts that
    it adds to every pod itself.
    """
    if not answer.ok:
        return Decision(False, answer.message, None, answer.warnings)
    after = answer.body
    if after.get("kind") == "Pod":
        requested = manifest.get("spec", {}).get("tolerations") or []
        tolerations = [
            t
            for t in after["spec"].get("tolerations", ())
            if t in requested or t not in _OWN_TOLERATIONS
        ]
        after = {**after, "spec": {**after["spec"], "tolerations": tolerations}}
    return Decision(True, "", after, answer.warnings)


def carry(live: Any, old: Any, new: Any) -> Any:
    """`live` with the changes from `old` to `new`. Lists of equal length are compared item by item,
    others are taken from `new`.
    """
    if isinstance(old, dict) and isinstance(new, dict) and isinstance(live, dict):
        result = {key: value for key, value in live.items() if key in new or key not in old}
        changed = {key: value for key, value in new.items() if key not in old or old[key] != value}
        return result | {
            key: carry(live.get(key), old.get(key), value) for key, value in changed.items()
        }
    if (
        isinstance(old, list)
        and isinstance(new, list)
        and isinstance(live, list)
        and len(old) == len(new) == len(live)
    ):
        return [carry(*parts) for parts in zip(live, old, new, strict=True)]
    return copy.deepcopy(live if old == new else new)


def _texts(options: Mapping[str, Any]) -> dict[str, str | Sequence[str]]:
    """Options as values of a URL query."""
    return {
        key: str(value).lower() if isinstance(value, bool) else value
        for key, value in options.items()
    }

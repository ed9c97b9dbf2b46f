"""Node-pool placement in Python, written from docs/node-pool.md and in its words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.engines.python import tolerations
from fairlead.engines.python.api import (
    Decision,
    Patch,
    Request,
    add,
    as_json,
    get,
    pointer,
    quoted,
    remove,
)
from fairlead.engines.python.pods import is_mirror, template_path, warning, will
from fairlead.engines.python.tolerations import Toleration
from fairlead.settings.models import Settings

NOTE = "fairlead.dev/assigned"
"""The annotation that notes what was decided: on a DaemonSet's template what Fairlead added to it,
and on a pod what it has after the decision.
"""
_MOST_NOTED = 100
"""The most keys and tolerations of a pod that are noted."""
_DAEMON_SET_CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"


def _exists(key: str, effect: str, **seconds: int) -> Toleration:
    key = f"node.kubernetes.io/{key}"
    return {"key": key, "operator": "Exists", "effect": effect, **seconds}


# The tolerations that clusters add to all pods, and to those of DaemonSets.
_ADDED_TO_ALL = (
    _exists("not-ready", "NoExecute", tolerationSeconds=300),
    _exists("unreachable", "NoExecute", tolerationSeconds=300),
    _exists("memory-pressure", "NoSchedule"),
)
_ADDED_TO_DAEMONS = (
    _exists("not-ready", "NoExecute"),
    _exists("unreachable", "NoExecute"),
    _exists("disk-pressure", "NoSchedule"),
    _exists("pid-pressure", "NoSchedule"),
    _exists("unschedulable", "NoSchedule"),
    _exists("network-unavailable", "NoSchedule"),
)


@dataclass(frozen=True)
class Assignment:
    """What a pool gives to its pods, and what else it allows them; None allows anything."""

    pool: str = ""
    selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Toleration] = ()
    allowed_selector: Mapping[str, Sequence[str]] | None = None
    allowed_tolerations: Sequence[Toleration] | None = None


@dataclass(frozen=True)
class Pods:
    """A pod, or the template by which a workload makes pods.

    They are `new` if pods begin to run by them: they are created, a template changes, or a pod that
    no pool placed loses its last gate (`ungated`). Otherwise a pod is updated, and what it had
    before does not have to fit the pool.
    """

    request: Request
    path: tuple[str, ...]
    new: bool
    ungated: bool
    selector: Mapping[str, Any]
    tolerations: Sequence[Any]
    old_selector: Mapping[str, Any]
    old_tolerations: Sequence[Any]
    note: Any
    """What an earlier decision added to a DaemonSet's template; None without a readable note."""

    @property
    def offender(self) -> str:
        """How refusals name them."""
        return "its template" if self.path else _subject(self.request)

    @property
    def own_selector(self) -> Mapping[str, Any]:
        """What the author set, and no earlier decision."""
        noted = get(self.note, "nodeSelector", default={})
        return {key: value for key, value in self.selector.items() if get(noted, key) != value}

    @property
    def noted_tolerations(self) -> Sequence[Any]:
        """The tolerations that an earlier decision added."""
        noted = get(self.note, "tolerations", default=[])
        return noted if isinstance(noted, list) else []


def decide(request: Request, parameters: Mapping[str, Any], settings: Settings) -> Decision:
    """Place a pod or a DaemonSet, refuse a pod, or warn about the pods of a template."""
    if request.kind.path == "/Namespace":
        return _on_namespace(request, settings)
    path = template_path(request.kind)
    if path is None:
        return Decision()
    if problems := frozenset(_unreadable(request, path)):
        return Decision(deny=problems) if _gets_assignment(request) else Decision()
    pods = _incoming(request, path, settings)
    if not _pool_matters(pods, settings):
        return Decision()
    if request.namespace_labels is None:
        return _on_unknown_namespace(request)
    pool = _pool_of(request.namespace_labels.get(settings.namespace_label), settings)
    if pool is None:
        return _without_pool(pods)
    return _in_pool(pods, pool, settings)


def _on_namespace(request: Request, settings: Settings) -> Decision:
    """Warn at once about a label that names no declared pool."""
    label = get(request.object, "metadata", "labels", settings.namespace_label, default="")
    old = get(request.old_object, "metadata", "labels", settings.namespace_label)
    if label in ("", old) or _is_declared(label, settings):
        return Decision()
    return Decision(
        warn=frozenset(
            {
                f"{settings.namespace_label}={label} is not a declared pool, so every pod of "
                f"namespace {quoted(request.name)} {will(settings.mode('node-pool'))} be "
                f"refused: use one of {', '.join(sorted(settings.pools))}"
            }
        )
    )


def _on_unknown_namespace(request: Request) -> Decision:
    """Refuse what would need the assignment until the pool is known."""
    if not _gets_assignment(request):
        return Decision()
    return Decision(
        deny=frozenset(
            {
                f"{_subject(request)}: namespace {quoted(request.namespace)} is not known to the "
                "policy yet: retry in a moment"
            }
        )
    )


def _without_pool(pods: Pods) -> Decision:
    """Remove from a DaemonSet's template what an earlier pool gave it."""
    if not (pods.path and _gets_assignment(pods.request) and _has_note(pods)):
        return Decision()
    return Decision(patch=tuple(_changes(pods, Assignment())))


def _in_pool(pods: Pods, pool: str, settings: Settings) -> Decision:
    """Give pods the assignment of their pool, or say why they are refused."""
    if _is_declared(pool, settings):
        assignment = _assignment(pool, settings)
        refusals = frozenset(_refusals(pods, assignment, settings))
        audit = f"placed: {pool}" if _gets_assignment(pods.request) else ""
    else:
        refusals = frozenset({_undeclared(pods.request.namespace, pool, settings)})
        audit = ""
    if refusals:
        return _refused(pods, refusals, settings)
    if not (pods.new and _gets_assignment(pods.request)):
        return Decision(audit=audit)
    return Decision(patch=tuple(_changes(pods, assignment)), audit=audit)


def _refused(pods: Pods, refusals: frozenset[str], settings: Settings) -> Decision:
    """A pod is refused. A template is admitted as it is, with warnings."""
    if not pods.path:
        return Decision(deny=refusals)
    mode = settings.mode("node-pool")
    return Decision(warn=frozenset(warning(pods.request, mode, refusal) for refusal in refusals))


# What comes in ------------------------------------------------------------------------------------


def _gets_assignment(request: Request) -> bool:
    """Whether the assignment is added to such objects: to pods, and to the templates of DaemonSets,
    whose controller picks the nodes before there are pods.
    """
    return request.kind.path in ("/Pod", "apps/DaemonSet")


def _subject(request: Request) -> str:
    kind = "pod" if request.kind.kind == "Pod" else request.kind.kind
    return f"{kind} {quoted(request.name)}"


def _template(manifest: Any, path: Sequence[str]) -> Any:
    return get(manifest, *path)


def _spec(manifest: Any, path: Sequence[str]) -> Any:
    return get(manifest, *path, "spec")


def _unreadable(request: Request, path: Sequence[str]) -> Iterator[str]:
    if not request.namespace:
        yield "the request has no namespace: cannot tell which pool its pods belong to"
    sides = {"object": request.object}
    if request.operation == "UPDATE":
        sides["oldObject"] = request.old_object
    for side, manifest in sides.items():
        spec = _spec(manifest, path)
        if not isinstance(spec, Mapping):
            yield f"request.{side} has no pod spec: cannot tell where the pod would run"
        for name, kind in {"nodeSelector": Mapping, "tolerations": list, "nodeName": str}.items():
            value = get(spec, name)
            if value is not None and not isinstance(value, kind):
                yield (
                    f"spec.{name} of the pod has the wrong type: cannot tell where the pod would "
                    "run"
                )


def _incoming(request: Request, path: tuple[str, ...], settings: Settings) -> Pods:
    """The pods of a request that can be read."""
    spec, old_spec = _spec(request.object, path), _spec(request.old_object, path)
    ungated = not path and _loses_last_gate(request, settings)
    updated = not path and request.operation == "UPDATE" and not ungated
    return Pods(
        request=request,
        path=path,
        new=ungated or _makes_pods(request, path),
        ungated=ungated,
        selector=get(spec, "nodeSelector", default={}),
        tolerations=get(spec, "tolerations", default=[]),
        old_selector=get(old_spec, "nodeSelector", default={}) if updated else {},
        old_tolerations=get(old_spec, "tolerations", default=[]) if updated else [],
        note=_note(request, path),
    )


def _makes_pods(request: Request, path: Sequence[str]) -> bool:
    """Whether pods are created, or will be by a new template."""
    if request.operation == "CREATE":
        return not is_mirror(request)
    return (
        bool(path)
        and request.operation == "UPDATE"
        and _template(request.object, path) != _template(request.old_object, path)
    )


def _controller(request: Request) -> Mapping[str, Any] | None:
    """The owner that made the object, by its own account."""
    owners = get(request.object, "metadata", "ownerReferences", default=[])
    return next((owner for owner in owners if get(owner, "controller") is True), None)


def _loses_last_gate(request: Request, settings: Settings) -> bool:
    """Whether a pod may run from now on that no pool's label has placed yet."""
    if request.operation != "UPDATE":
        return False
    gates = get(request.object, "spec", "schedulingGates")
    old_gates = get(request.old_object, "spec", "schedulingGates")
    old_selector = get(request.old_object, "spec", "nodeSelector", default={})
    return bool(old_gates) and not gates and not _is_of_a_pool(old_selector, settings)


def _is_of_a_pool(selector: Mapping[str, Any], settings: Settings) -> bool:
    """Whether a nodeSelector has what any pool gives."""
    if not settings.pools:
        return bool(selector.get(settings.node_label))
    return any(_includes(selector, _assignment(pool, settings).selector) for pool in settings.pools)


def _includes(selector: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    return all(key in selector and selector[key] == value for key, value in part.items())


def _pool_matters(pods: Pods, settings: Settings) -> bool:
    """Whether pods begin to run, or an update has to fit their pool."""
    if pods.new:
        return True
    if pods.path or pods.request.operation != "UPDATE":
        return False
    restricted = any(pool.allowed_tolerations is not None for pool in settings.pools.values())
    return pods.selector != pods.old_selector or (restricted and bool(_new_tolerations(pods)))


def _new_tolerations(pods: Pods) -> list[Any]:
    return [each for each in pods.tolerations if each not in pods.old_tolerations]


# Pools --------------------------------------------------------------------------------------------


def _pool_of(label: str | None, settings: Settings) -> str | None:
    """The pool of a namespace with this label; an empty label opts out of the default pool."""
    return settings.default_pool if label is None else label or None


def _is_declared(pool: str, settings: Settings) -> bool:
    return not settings.pools or pool in settings.pools


def _undeclared(namespace: str, pool: str, settings: Settings) -> str:
    return (
        f"namespace {quoted(namespace)} has {settings.namespace_label}={pool}, which is not a "
        "declared pool: relabel the namespace with one of "
        f"{', '.join(sorted(settings.pools))}"
    )


def _assignment(pool: str, settings: Settings) -> Assignment:
    declared = settings.assignment(pool)
    values = declared.model_dump(by_alias=True, exclude_none=True)
    return Assignment(
        pool=pool,
        selector=declared.node_selector,
        tolerations=values["tolerations"],
        allowed_selector=declared.allowed_node_selector,
        allowed_tolerations=values.get("allowedTolerations"),
    )


# Refusals -----------------------------------------------------------------------------------------


def _refusals(pods: Pods, assignment: Assignment, settings: Settings) -> Iterator[str]:
    """Why the pod is refused, or why every pod of the template would be."""
    if pods.new:
        yield from _on_node_name(pods, assignment)
        if settings.pod_selector == "reject":
            yield from _on_any_selector(pods, assignment)
        else:
            yield from _on_conflicts(pods, assignment)
    elif pods.selector != pods.old_selector and not _includes(pods.selector, assignment.selector):
        yield (
            f"{pods.offender} changes spec.nodeSelector so that it leaves "
            f"{_place(pods, assignment)}: keep {_pairs(assignment.selector)}"
        )
    yield from _on_foreign_keys(pods, assignment)
    yield from _on_foreign_tolerations(pods, assignment)


def _on_node_name(pods: Pods, assignment: Assignment) -> Iterator[str]:
    if node := get(_spec(pods.request.object, pods.path), "nodeName"):
        yield (
            f"{pods.offender} sets spec.nodeName={node}, but namespace "
            f"{quoted(pods.request.namespace)} places its pods in pool {quoted(assignment.pool)}: "
            "remove spec.nodeName"
        )


def _on_any_selector(pods: Pods, assignment: Assignment) -> Iterator[str]:
    """podSelector: reject. A gated pod may have tightened its nodeSelector within the pool."""
    own = pods.own_selector
    if own in ({}, assignment.selector):
        return
    if pods.ungated and _includes(pods.selector, assignment.selector):
        return
    yield (
        f"{pods.offender} sets spec.nodeSelector {_pairs(own)}, but namespace "
        f"{quoted(pods.request.namespace)} places its pods in pool {quoted(assignment.pool)}"
        f"{_lack(own, assignment)}: remove spec.nodeSelector, or set just "
        f"{_pairs(assignment.selector)}{_hint(pods)}"
    )


def _lack(own: Mapping[str, Any], assignment: Assignment) -> str:
    """What the nodeSelector lacks, if all is right that it has."""
    if not _includes(assignment.selector, own):
        return ""
    missing = {key: value for key, value in assignment.selector.items() if key not in own}
    return f", which also requires {_pairs(missing)}"


def _on_conflicts(pods: Pods, assignment: Assignment) -> Iterator[str]:
    """podSelector: merge."""
    own = pods.own_selector
    conflicts = {
        key: own[key]
        for key, value in assignment.selector.items()
        if key in own and own[key] != value
    }
    if conflicts:
        yield (
            f"{pods.offender} sets spec.nodeSelector {_pairs(conflicts)}, but "
            f"{_place(pods, assignment)} requires {_pairs(assignment.selector)}: remove the key, "
            f"or set the required value{_hint(pods)}"
        )


def _on_foreign_keys(pods: Pods, assignment: Assignment) -> Iterator[str]:
    allowed = assignment.allowed_selector
    if allowed is None:
        return
    foreign = {
        key: value
        for key, value in pods.own_selector.items()
        if key not in assignment.selector
        and value not in allowed.get(key, ())
        and pods.old_selector.get(key) != value
    }
    if foreign:
        choices = [f"{key}={value}" for key in sorted(allowed) for value in allowed[key]]
        yield (
            f"{pods.offender} sets spec.nodeSelector {_pairs(foreign)}, which "
            f"{_place(pods, assignment)} does not allow: remove it, or use "
            f"{', '.join(choices) if allowed else 'none'}{_hint(pods)}"
        )


def _on_foreign_tolerations(pods: Pods, assignment: Assignment) -> Iterator[str]:
    if assignment.allowed_tolerations is None:
        return
    allowed = [*assignment.allowed_tolerations, *assignment.tolerations]
    added = [*_ADDED_TO_ALL]
    if pods.request.user.name == _DAEMON_SET_CONTROLLER:
        added += _ADDED_TO_DAEMONS
    foreign = [
        each
        for each in _new_tolerations(pods)
        if each not in pods.noted_tolerations and not tolerations.covered(each, [*allowed, *added])
    ]
    if foreign:
        yield (
            f"{pods.offender} sets the toleration {tolerations.texts(foreign)}, which "
            f"{_place(pods, assignment)} does not allow: remove it, or use "
            f"{tolerations.texts(allowed)}"
        )


def _place(pods: Pods, assignment: Assignment) -> str:
    return f"pool {quoted(assignment.pool)} of namespace {quoted(pods.request.namespace)}"


def _hint(pods: Pods) -> str:
    """The way out for a nodeSelector that no manifest sets."""
    request = pods.request
    if request.kind.path == "apps/DaemonSet" and request.operation == "UPDATE":
        old = get(_spec(request.old_object, pods.path), "nodeSelector", default={})
        operation = as_json({"op": "remove", "path": pointer((*pods.path, "spec", "nodeSelector"))})
        return (
            f"; if its manifest does not set it: kubectl -n {request.namespace} patch daemonset "
            f"{request.name} --type json -p '[{operation}]'"
            if old == pods.selector
            else ""
        )
    owner = _controller(request)
    if (
        request.kind.path == "/Pod"
        and NOTE in get(request.object, "metadata", "annotations", default={})
        and get(owner, "kind") == "DaemonSet"
    ):
        name = get(owner, "name")
        return (
            f"; an earlier pool gave it to DaemonSet {quoted(name)}: kubectl -n "
            f"{request.namespace} rollout restart daemonset {name}"
        )
    return ""


def _pairs(selector: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={selector[key]}" for key in sorted(selector))


# Changes ------------------------------------------------------------------------------------------


def _note(request: Request, path: Sequence[str]) -> Any:
    if request.kind.path != "apps/DaemonSet":
        return None
    text = get(_template(request.object, path), "metadata", "annotations", NOTE)
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _has_note(pods: Pods) -> bool:
    """Whether a pod or a DaemonSet's template has a note, readable or not."""
    annotations = get(_template(pods.request.object, pods.path), "metadata", "annotations")
    return NOTE in (annotations or {})


def _changes(pods: Pods, assignment: Assignment) -> Iterator[Patch]:
    """Add what is missing of the assignment, and remove what an earlier decision added and the pool
    no longer gives. An empty assignment removes all that.
    """
    changes = [*_selector_changes(pods, assignment)]
    kept = [
        each
        for each in pods.tolerations
        if each not in pods.noted_tolerations or each in assignment.tolerations
    ]
    missing = [each for each in assignment.tolerations if not tolerations.covered(each, kept)]
    changes += _toleration_changes(pods, kept, missing)
    yield from changes
    if pods.path or (pods.request.operation == "CREATE" and (changes or _has_note(pods))):
        yield from _note_changes(pods, _new_note(pods, assignment, kept, missing))


def _selector_changes(pods: Pods, assignment: Assignment) -> Iterator[Patch]:
    path = (*pods.path, "spec", "nodeSelector")
    after = {**pods.own_selector, **assignment.selector}
    if after != pods.selector:
        yield add(path, after) if after else remove(path)


def _toleration_changes(
    pods: Pods, kept: Sequence[Toleration], missing: Sequence[Toleration]
) -> Iterator[Patch]:
    path = (*pods.path, "spec", "tolerations")
    after = [*kept, *missing]
    if len(kept) == len(pods.tolerations) > 0:
        yield from (add((*path, "-"), each) for each in missing)
    elif after:
        yield add(path, after)
    elif pods.tolerations:
        yield remove(path)


def _new_note(
    pods: Pods,
    assignment: Assignment,
    kept: Sequence[Toleration],
    missing: Sequence[Toleration],
) -> Mapping[str, Any]:
    """What a template has from this decision and earlier ones, and not from its author; of a pod
    all that it has now, by which its final state is known.
    """
    own = pods.own_selector
    if pods.path:
        return {
            "nodeSelector": {
                key: value for key, value in assignment.selector.items() if own.get(key) != value
            },
            "tolerations": [*(each for each in kept if each in pods.noted_tolerations), *missing],
        }
    selector, after = {**own, **assignment.selector}, [*kept, *missing]
    if len(selector) + len(after) > _MOST_NOTED:
        return {}
    return {"nodeSelector": selector, "tolerations": after}


def _note_changes(pods: Pods, note: Mapping[str, Any]) -> Iterator[Patch]:
    """Write the note, or remove one that no longer holds."""
    metadata = get(_template(pods.request.object, pods.path), "metadata")
    if not isinstance(metadata, Mapping):
        return
    path = (*pods.path, "metadata", "annotations")
    annotations = metadata.get("annotations")
    if not any(note.values()):
        if _has_note(pods):
            yield remove((*path, NOTE))
    elif annotations is None:
        yield add(path, {NOTE: as_json(note)})
    elif isinstance(annotations, Mapping) and annotations.get(NOTE) != as_json(note):
        yield add((*path, NOTE), as_json(note))

"""Makes pools of placements, and says which label each namespace needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.convert.findings import (
    ADDED,
    Assignment,
    Everywhere,
    Findings,
    Labelled,
    Named,
    Origin,
    Placement,
    each_once,
)
from fairlead.deployment.names import EXEMPT
from fairlead.kube import labels
from fairlead.settings.models import Settings, Toleration

_LABEL = Settings().namespace_label
_NODE_LABEL = Settings().node_label
_LONGEST = 63


@dataclass
class Pools:
    """Pools by name, and what to do so that namespaces belong to them."""

    namespace_label: str
    pools: dict[str, Assignment] = field(default_factory=dict)
    default: str | None = None
    node_label: str | None = None
    """The node label whose value is that of the label of the namespace, if there are no pools."""
    next_steps: list[str] = field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """The part of fairlead.yaml."""
        label = {"namespaceLabel": self.namespace_label} if self.namespace_label != _LABEL else {}
        if self.node_label:
            node_label = {"nodeLabel": self.node_label} if self.node_label != _NODE_LABEL else {}
            return {**label, **node_label, "podSelector": "merge"}
        if not self.pools:
            return {"intents": {"node-pool": False}}
        alike = all(pool.closed and pool.allowed is None for pool in self.pools.values())
        return {
            **label,
            **({} if alike else {"podSelector": "merge"}),
            **({"defaultPool": self.default} if self.default else {}),
            "pools": {
                name: _document(pool, alike=alike) for name, pool in sorted(self.pools.items())
            },
        }


def compile_pools(findings: Findings) -> Pools:
    """The pools that the placements need. What cannot be said is added to the findings."""
    placements = findings.placements
    if copied := _copied(findings):
        return copied
    label = _namespace_label(placements)
    usable = []
    for placement in placements:
        target = placement.target
        if isinstance(target, Labelled) and target.key != label:
            findings.leave_out(placement.origin, _other_label(target, label))
        else:
            usable.append(placement)
    pools = Pools(label)
    everywhere = [part for part in usable if isinstance(part.target, Everywhere)]
    _by_label(pools, findings, everywhere, usable)
    if not pools.pools:  # the label keeps the meaning that it has for others
        pools.namespace_label = _LABEL
    _default(pools, findings, everywhere)
    _by_name(pools, findings, everywhere, usable)
    _check_labels(pools, findings)
    _differences(pools, findings, everywhere, usable)
    return pools


def _copied(findings: Findings) -> Pools | None:
    """The pools if nothing but one label of namespaces places pods, by its value."""
    labels = {(copy.key, copy.node_label) for copy in findings.copies}
    if len(labels) == 1 and not findings.placements:
        ((key, node_label),) = labels
        return Pools(key, node_label=node_label)
    for copy in findings.copies:
        findings.leave_out(
            copy.origin,
            f"it gives pods the node label {copy.node_label} of the value of the namespace's label "
            f"{copy.key}, and other policies place pods, too: declare a pool for each value",
        )
    return None


def _namespace_label(placements: Iterable[Placement]) -> str:
    """The label that most placements select namespaces by."""
    targets = {part.target for part in placements if isinstance(part.target, Labelled)}
    counts = Counter(target.key for target in targets if isinstance(target, Labelled))
    return min(counts, key=lambda key: (-counts[key], key), default=_LABEL)


def _other_label(target: Labelled, label: str) -> str:
    return (
        f"Fairlead reads one label of a namespace, {label}, and this is about {target.key}="
        f"{target.value}: declare a pool, and label these namespaces (kubectl label namespaces "
        f"-l {target.key}={target.value} {label}=POOL)"
    )


def _by_label(
    pools: Pools, findings: Findings, everywhere: list[Placement], usable: Sequence[Placement]
) -> None:
    parts: dict[str, list[Placement]] = {}
    for placement in usable:
        if isinstance(placement.target, Labelled):
            parts.setdefault(placement.target.value, []).append(placement)
    for value, selected in sorted(parts.items()):
        scope = f"namespaces with {pools.namespace_label}={value}"
        assignment = _merged(findings, [*everywhere, *selected], scope)
        if assignment is not None:
            pools.pools[value] = assignment


def _default(pools: Pools, findings: Findings, everywhere: Sequence[Placement]) -> None:
    if not everywhere:
        return
    assignment = _merged(findings, everywhere, "all namespaces")
    if assignment is not None:
        pools.default = _name_for(pools, assignment)


def _by_name(
    pools: Pools, findings: Findings, everywhere: list[Placement], usable: Sequence[Placement]
) -> None:
    by_name: dict[str, list[Placement]] = {}
    for placement in usable:
        if isinstance(placement.target, Everywhere):
            for name in placement.target.excluded:
                by_name.setdefault(name, [])
        elif isinstance(placement.target, Named):
            by_name.setdefault(placement.target.name, []).append(placement)
    for name, parts in sorted(by_name.items()):
        origins = [part.origin for part in parts]
        if name in EXEMPT:
            for origin in origins:
                findings.leave_out(origin, f"namespace {name} is exempt from all of Fairlead")
            continue
        shared = [placement for placement in everywhere if name not in _excluded(placement)]
        labelled = _of_label(usable, pools.namespace_label, _known(findings, name))
        assignment = _merged(findings, [*shared, *labelled, *parts], f"namespace {name}")
        if assignment is not None:
            _place(pools, findings, name, assignment, origins)


def _place(
    pools: Pools, findings: Findings, name: str, assignment: Assignment, origins: list[Origin]
) -> None:
    """Note the label that brings the namespace into the pool of this assignment."""
    label = pools.namespace_label
    pool = "" if assignment.empty else _name_for(pools, assignment)
    if not pool and pools.default is None:
        return
    current = _known(findings, name).get(label)
    if current == pool:
        return
    if current:
        for origin in origins or [findings.namespaces[name][0]]:
            findings.leave_out(
                origin,
                f"namespace {name} has the label {label}={current}, but needs {label}={pool}: "
                "change the label, or choose another namespaceLabel",
            )
        return
    pools.next_steps.append(f"kubectl label namespace {name} {label}={pool}")


def _check_labels(pools: Pools, findings: Findings) -> None:
    """Name the namespaces whose label names no pool: Fairlead refuses their pods."""
    label = pools.namespace_label
    for name, (origin, namespace_labels) in sorted(findings.namespaces.items()):
        value = namespace_labels.get(label)
        if pools.pools and value and value not in pools.pools and name not in EXEMPT:
            findings.leave_out(
                origin,
                f"its label {label}={value} names none of the pools, so Fairlead would refuse its "
                "pods: declare that pool, or choose another namespaceLabel",
            )


def _differences(
    pools: Pools, findings: Findings, everywhere: Sequence[Placement], usable: Sequence[Placement]
) -> None:
    if not pools.pools:
        return
    label = pools.namespace_label
    if any(pool.tolerations for pool in pools.pools.values()):
        findings.differ([ADDED])
    if everywhere:
        findings.differ([f"the namespaces {', '.join(EXEMPT)} are exempt from all of Fairlead"])
    if any(isinstance(placement.target, Labelled) for placement in usable):
        values = ",".join(sorted(pools.pools))
        findings.differ(
            [f"the pods of a namespace whose label {label} names none of the pools are refused"]
        )
        pools.next_steps.append(
            f"kubectl get namespaces -l '{label},{label} notin ({values},)'  # declare pools for "
            "these, or their pods will be refused"
        )


def _merged(findings: Findings, parts: Sequence[Placement], scope: str) -> Assignment | None:
    """What all parts give together. None if they contradict each other, or give tolerations only;
    the findings say so.
    """
    selector: dict[str, tuple[str, Placement]] = {}
    contradictory = False
    for part in parts:
        for key, value in part.assignment.node_selector.items():
            (other_value, first) = selector.setdefault(key, (value, part))
            if other_value != value:
                contradictory = True
                findings.leave_out(
                    part.origin, _contradiction(scope, key, value, first, other_value)
                )
                findings.leave_out(
                    first.origin, _contradiction(scope, key, other_value, part, value)
                )
    if contradictory:
        return None
    whitelists = [part.assignment.allowed for part in parts if part.assignment.allowed is not None]
    merged = Assignment(
        node_selector={key: value for key, (value, _) in sorted(selector.items())},
        tolerations=each_once(
            toleration for part in parts for toleration in part.assignment.tolerations
        ),
        closed=any(part.assignment.closed for part in parts),
        allowed=whitelists[0] if whitelists else None,
        allowed_tolerations=next(
            (toleration for part in parts if (toleration := part.assignment.allowed_tolerations)),
            None,
        ),
    )
    if merged.about_tolerations and not merged.node_selector:
        for part in parts:
            if part.assignment.about_tolerations:
                does = "gives" if part.assignment.tolerations else "allows"
                findings.leave_out(
                    part.origin,
                    f"it {does} {scope} tolerations without a nodeSelector, and a pool of Fairlead "
                    "always has one: write a pool with the nodeSelector of the tainted nodes",
                )
        return None
    return merged


def _contradiction(scope: str, key: str, value: str, rival: Placement, theirs: str) -> str:
    return (
        f"it gives {scope} {key}={value}, but {rival.origin.object} ({rival.origin.source}) gives "
        f"{key}={theirs}: keep one of them"
    )


def _excluded(placement: Placement) -> frozenset[str]:
    target = placement.target
    return target.excluded if isinstance(target, Everywhere) else frozenset()


def _known(findings: Findings, name: str) -> Mapping[str, str]:
    """The labels of a namespace that the input describes."""
    return findings.namespaces[name][1] if name in findings.namespaces else {}


def _of_label(
    usable: Sequence[Placement], label: str, labels: Mapping[str, str]
) -> Iterator[Placement]:
    value = labels.get(label)
    yield from (part for part in usable if part.target == Labelled(label, value or ""))


def _name_for(pools: Pools, assignment: Assignment) -> str:
    """The pool with this assignment, which is declared if there is none."""
    for name, pool in pools.pools.items():
        if pool == assignment:
            return name
    words = [value for _, value in sorted(assignment.node_selector.items()) if value]
    base = "-".join(words)[:_LONGEST].strip("-_.") or "pool"
    name, number = base, 1
    while name in pools.pools:
        number += 1
        name = f"{base[: _LONGEST - 4]}-{number}"
    labels.check_value(name)
    pools.pools[name] = assignment
    return name


def _document(pool: Assignment, *, alike: bool) -> dict[str, Any]:
    """A pool as in fairlead.yaml. If all pools are `alike`, podSelector says what pods may have."""
    document: dict[str, Any] = {"nodeSelector": dict(pool.node_selector)}
    if pool.tolerations:
        document["tolerations"] = _written(pool.tolerations)
    if pool.allowed_tolerations is not None:
        document["allowedTolerations"] = _written(pool.allowed_tolerations)
    if not alike and (pool.closed or pool.allowed is not None):
        allowed = {} if pool.closed else pool.allowed or {}
        document["allowedNodeSelector"] = {
            key: [value]
            for key, value in sorted(allowed.items())
            if pool.node_selector.get(key) != value
        }
    return document


def _written(tolerations: Sequence[Toleration]) -> list[dict[str, Any]]:
    return [
        toleration.model_dump(by_alias=True, exclude_defaults=True, exclude_none=True)
        for toleration in tolerations
    ]

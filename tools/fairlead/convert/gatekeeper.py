"""Reads objects of Gatekeeper: mutators that place pods, and constraints of its library."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fairlead.common import yaml_files
from fairlead.convert import gatekeeper_constraints, gatekeeper_templates
from fairlead.convert.findings import (
    REPLACED,
    Assignment,
    Findings,
    Instance,
    Placement,
    Target,
    origin_of,
)
from fairlead.convert.gatekeeper_templates import Library
from fairlead.convert.parameters import Kinds, Parameters
from fairlead.convert.reading import (
    AnySelector,
    Lenient,
    Metadata,
    group_of,
    node_selector,
    tolerations,
    unknown,
)
from fairlead.convert.targets import Untakable, check_names, namespaces, targets
from fairlead.settings.models import Exempt

_MUTATORS = "mutations.gatekeeper.sh"
_CONSTRAINTS = "constraints.gatekeeper.sh"

# Why an object is left out: by its group, or by its group and kind.
_LEFT_OUT = {
    f"{_MUTATORS}/AssignMetadata": "it sets labels or annotations, and Fairlead sets none: keep "
    "Gatekeeper for it",
    f"{_MUTATORS}/AssignImage": "it changes images, and Fairlead changes none: keep Gatekeeper for "
    "it (image-sources can refuse images from elsewhere)",
    "config.gatekeeper.sh/Config": "it tells Gatekeeper what to replicate, and whom to leave "
    "alone: in fairlead.yaml, write replicate and exempt",
    "expansion.gatekeeper.sh": "it makes Gatekeeper look at templates of pods, which intents do by "
    "themselves: leave it out",
    "externaldata.gatekeeper.sh": "it lets policies ask another program, which Fairlead never "
    "does: keep Gatekeeper for them",
    "test.gatekeeper.sh": "it tests policies of Gatekeeper, and is none: leave it out",
    "gator.gatekeeper.sh": "it lists policies for gator, and is none: leave it out",
}

# A part of a location: a name, one in quotes, or a name with the key of an item of a list.
_STEP = re.compile(
    r"""(?:"(?P<double>[^"\\]+)"|'(?P<single>[^'\\]+)'|(?P<name>[^."'\[\]\s]+))"""
    r"""(?:\[\s*(?P<item>[^\]]*?)\s*\])?(?:\.|$)"""
)


class _Kinds(Lenient):
    api_groups: list[str] = ["*"]
    kinds: list[str] = ["*"]


class _Match(Lenient):
    kinds: list[_Kinds] | None = None
    scope: str = "*"
    source: str = "All"
    name: str = ""
    namespaces: list[str] | None = None
    excluded_namespaces: list[str] | None = None
    namespace_selector: AnySelector | None = None
    label_selector: AnySelector | None = None


class _ApplyTo(Lenient):
    groups: list[str] = []
    kinds: list[str] = []
    versions: list[str] = []


class _Assigned(Lenient):
    assign: dict[str, Any] = {}
    path_tests: list[dict[str, Any]] | None = None
    operation: str = "merge"
    values: dict[str, Any] = {}


class _MutatorSpec(Lenient):
    apply_to: list[_ApplyTo] = []
    match: _Match = _Match()
    location: str
    parameters: _Assigned = _Assigned()


class _Mutator(Lenient):
    metadata: Metadata
    spec: _MutatorSpec


class _ConstraintSpec(Lenient):
    match: _Match = _Match()
    parameters: dict[str, Any] = {}
    enforcement_action: str = "deny"


class _Constraint(Lenient):
    metadata: Metadata
    spec: _ConstraintSpec = _ConstraintSpec()


def concerns(value: dict[str, Any]) -> bool:
    """Whether an object is one of Gatekeeper's."""
    return f".{group_of(value)}".endswith(".gatekeeper.sh")


def collect(document: yaml_files.Document, findings: Findings, library: Library) -> None:
    """Add what an object of Gatekeeper says. Raises InputError."""
    kind, group = document.value["kind"], group_of(document.value)
    try:
        if group == _MUTATORS and kind in ("Assign", "ModifySet"):
            _collect_mutator(document, findings)
        elif group == _CONSTRAINTS:
            _collect_constraint(document, findings, library)
        elif group == gatekeeper_templates.GROUP:
            library.check(document.value)
        else:
            reason = _LEFT_OUT.get(f"{group}/{kind}") or _LEFT_OUT.get(group)
            raise Untakable(reason or "it configures Gatekeeper, and Fairlead has no counterpart")
    except Untakable as error:
        findings.leave_out(origin_of(document), str(error))


def _collect_mutator(document: yaml_files.Document, findings: Findings) -> None:
    origin = origin_of(document)
    spec = document.parse(_Mutator).spec
    if fields := unknown(spec) or unknown(spec.parameters):
        raise Untakable(f"it has the unknown field {fields[0]}")
    assignment = _assignment(document, spec)
    pods = [entry for entry in spec.apply_to if _any(entry.groups, "") and _any(entry.kinds, "Pod")]
    if not pods:
        raise Untakable(
            "it does not change pods (applyTo), and Fairlead places pods and the templates of "
            "DaemonSets: change pods"
        )
    selected_targets = _targets(spec.match)
    foreign = {kind for entry in spec.apply_to for kind in entry.kinds} - {"Pod"}
    if foreign:
        findings.leave_out(origin, f"applyTo: it changes {', '.join(sorted(foreign))}, too")
    if spec.parameters.path_tests:
        if any(test.get("condition") != "MustNotExist" for test in spec.parameters.path_tests):
            raise Untakable("parameters.pathTests: Fairlead places every pod of a namespace")
        if assignment.node_selector:
            findings.leave_out(
                origin,
                "parameters.pathTests: pods that set the field themselves keep it there, but "
                "Fairlead refuses another value than the pool's: remove it from these pods",
            )
    elif assignment.node_selector:
        findings.differ([REPLACED])
    findings.placements += [Placement(origin, target, assignment) for target in selected_targets]


def _assignment(document: yaml_files.Document, spec: _MutatorSpec) -> Assignment:
    """What a mutator gives a pod. Raises Untakable, InputError."""
    steps = _steps(spec.location)
    if document.value["kind"] == "ModifySet":
        if steps[:2] != ("spec", "tolerations"):
            raise Untakable(_elsewhere(spec.location))
        if spec.parameters.operation != "merge":
            raise Untakable(
                "parameters.operation prune: it removes tolerations, and a pool of Fairlead adds "
                "some: allowedTolerations of a pool refuses others"
            )
        at = ["spec", "parameters", "values", "fromList"]
        values = spec.parameters.values.get("fromList", [])
        return Assignment(tolerations=tolerations(document, at, values))
    if steps[:2] not in (("spec", "nodeSelector"), ("spec", "tolerations")):
        raise Untakable(_elsewhere(spec.location))
    if "value" not in spec.parameters.assign:
        raise Untakable(
            "parameters.assign: the value comes from elsewhere (externalData or fromMetadata), "
            "and a pool has constants: write the value"
        )
    value = spec.parameters.assign["value"]
    at = ["spec", "parameters", "assign", "value"]
    match steps:
        case ("spec", "nodeSelector"):
            return Assignment(node_selector=node_selector(document, at, value), closed=True)
        case ("spec", "nodeSelector", key):
            return Assignment(node_selector=node_selector(document, at, {key: value}))
        case ("spec", "tolerations"):
            return Assignment(tolerations=tolerations(document, at, value))
        case ("spec", "tolerations", _):
            return Assignment(tolerations=tolerations(document, at, [value]))
    raise Untakable(_elsewhere(spec.location))


def _elsewhere(location: str) -> str:
    return (
        f"location {location}: Fairlead places pods by their nodeSelector and tolerations: keep "
        "Gatekeeper for the rest"
    )


def _steps(location: str) -> tuple[str, ...]:
    """The parts of a location. Raises Untakable."""
    steps: list[str] = []
    end = 0
    for match in _STEP.finditer(location):
        if match.start() != end:
            break
        end = match.end()
        steps.append(match["double"] or match["single"] or match["name"])
        if match["item"] is not None:
            steps.append(match["item"])
    if end != len(location) or location.endswith("."):
        raise Untakable(f"location {location!r} cannot be read")
    return tuple(steps)


def _targets(match: _Match) -> list[Target]:
    _whole(match)
    if match.kinds and not any(
        _any(kinds.api_groups, "") and _any(kinds.kinds, "Pod") for kinds in match.kinds
    ):
        raise Untakable("match.kinds does not name pods")
    return targets(
        match.namespaces or [], match.namespace_selector, match.excluded_namespaces or []
    )


def _whole(match: _Match) -> None:
    """Raises Untakable if a policy is about some objects of a namespace only."""
    if fields := unknown(match):
        raise Untakable(f"match.{fields[0]} is not known")
    labels = match.label_selector
    if labels and (labels.match_labels or labels.match_expressions or unknown(labels)):
        raise Untakable(
            "match.labelSelector: Fairlead decides about all objects of a namespace: give those "
            "objects a namespace of their own"
        )
    if match.name not in ("", "*"):
        raise Untakable("match.name: Fairlead decides about objects of any name: remove it")
    if match.source not in ("", "All", "Original"):
        raise Untakable(f"match.source {match.source}: Fairlead decides about what is requested")
    if match.scope == "Cluster":
        raise Untakable("match.scope Cluster: it is about no object of a namespace")


def _any(values: Sequence[str], expected: str) -> bool:
    return expected in values or "*" in values


def _collect_constraint(
    document: yaml_files.Document, findings: Findings, library: Library
) -> None:
    kind = document.value["kind"]
    meaning, by_name = library.constraint(kind)
    constraint = document.parse(_Constraint)
    spec = constraint.spec
    part = document.at(["spec", "parameters"], spec.parameters)
    pairs = [
        (group, kind)
        for entry in spec.match.kinds or [_Kinds()]
        for group in entry.api_groups
        for kind in entry.kinds
    ]
    result = gatekeeper_constraints.of_constraint(meaning, part, Kinds(pairs))
    instance = _instance(document, constraint, result)
    if by_name:
        findings.assume(
            f"{kind} is the constraint of Gatekeeper's library, as its name says: the code of its "
            "ConstraintTemplate is not in the input (kubectl get constrainttemplates -o yaml)"
        )
    findings.add_instance(instance, reports_only=f"enforcementAction {spec.enforcement_action}")
    findings.leave_out(instance.origin, *result.left_out)
    findings.differ(result.differences)


def _instance(
    document: yaml_files.Document, constraint: _Constraint, parameters: Parameters
) -> Instance:
    """The instance with these parameters. Raises Untakable if the constraint is about some objects
    only.
    """
    spec, match = constraint.spec, constraint.spec.match
    if fields := unknown(spec):
        raise Untakable(f"{fields[0]}: Fairlead has one enforcement for each instance: remove it")
    if match.scope == "Cluster":  # a Namespace is an object of the cluster
        match = match.model_copy(update={"scope": "*"})
        if parameters.intent != "required-labels":
            raise Untakable("match.scope Cluster: it is about no object of a namespace")
    _whole(match)
    excluded = match.excluded_namespaces or []
    check_names(excluded)
    return Instance(
        origin=origin_of(document),
        name=constraint.metadata.name,
        intent=parameters.intent,
        parameters=parameters.values,
        namespaces=namespaces(match.namespaces or [], match.namespace_selector),
        exempt=Exempt(namespaces=excluded),
        mode=_mode(spec.enforcement_action),
    )


def _mode(action: str) -> str | None:
    """The enforcement; None if it only reports. Raises Untakable."""
    if action not in ("deny", "warn", "dryrun"):
        raise Untakable(
            f"enforcementAction {action}: Fairlead has deny and warn: write one of them"
        )
    return None if action == "dryrun" else action

"""Reads Kyverno's policies in CEL: MutatingPolicies that place pods, ValidatingPolicies that ask
for what an intent of Fairlead decides about, and why the others are left out.

Source: Kyverno's API, policies.kyverno.io.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Location
from fairlead.convert import kyverno_placement, kyverno_validation, patches
from fairlead.convert.cel import Expressions, Named, Node, inlined, mentions, variables
from fairlead.convert.cel_values import Evaluation
from fairlead.convert.findings import Findings, origin_of
from fairlead.convert.kyverno_scope import Scope, check_pods, without
from fairlead.convert.parameters import Kinds, kind_of_resource
from fairlead.convert.reading import AnySelector, Lenient, Metadata, unknown
from fairlead.convert.targets import Untakable, namespaces
from fairlead.settings.models import Exempt

GROUP = "policies.kyverno.io"

_LEFT_OUT = {
    "DeletingPolicy": "it deletes objects by a schedule, and Fairlead deletes none",
    "GeneratingPolicy": "it generates objects, and Fairlead generates nothing",
    "ImageValidatingPolicy": "it verifies images, and no intent of Fairlead does",
}


_MERGED = (
    "Kyverno refuses an ApplyConfiguration of a pod's nodeSelector or tolerations without "
    "evaluation.useServerSideApply, and Fairlead gives them"
)


class _Rule(Lenient):
    api_groups: list[str] = []
    api_versions: list[str] = []
    operations: list[str] = []
    resources: list[str] = []
    scope: str = "*"

    def concerns(self, operation: str) -> bool:
        """Whether the rule is about this operation."""
        return bool({operation, "*"} & {*self.operations})


class _Constraints(Lenient):
    resource_rules: list[_Rule] = []
    namespace_selector: AnySelector | None = None
    match_policy: str = ""


class _Expression(Lenient):
    expression: str


class _Mutation(Lenient):
    json_patch: _Expression | None = None
    apply_configuration: _Expression | None = None


class _Switch(Lenient):
    enabled: bool = True


class _Evaluation(Lenient):
    mode: str = "Kubernetes"
    admission: _Switch = _Switch()
    mutate_existing: _Switch = _Switch(enabled=False)
    use_server_side_apply: bool = False


class _Controllers(Lenient):
    controllers: list[str] | None = None


class _Autogen(Lenient):
    pod_controllers: _Controllers = _Controllers()


class _Spec(Lenient):
    match_constraints: _Constraints = _Constraints()
    match_conditions: list[Named] = []
    variables: list[Named] = []
    mutations: list[_Mutation] = []
    validations: list[_Expression] = []
    validation_actions: list[str] = []
    evaluation: _Evaluation = _Evaluation()
    autogen: _Autogen = _Autogen()
    target_match_constraints: dict[str, Any] | None = None

    def kinds(self) -> Kinds:
        """The kinds that the policy is about."""
        pairs = [
            (group, kind_of_resource(resource))
            for rule in self.match_constraints.resource_rules
            for group in rule.api_groups
            for resource in rule.resources
        ]
        if ("", "Pod") in pairs:
            pairs = [pair for pair in pairs if pair != ("", "Pod/ephemeralcontainers")]
        of_workloads = self.autogen.pod_controllers.controllers != []
        templates = of_workloads and bool(pairs) and {*pairs} == {("", "Pod")}
        return Kinds([*dict.fromkeys(pairs)], "matchConstraints.resourceRules", templates)


class _Policy(Lenient):
    metadata: Metadata
    spec: _Spec


def collect(document: yaml_files.Document, findings: Findings, expressions: Expressions) -> None:
    """Add what a policy says. Raises InputError."""
    kind: str = document.value["kind"].removeprefix("Namespaced")
    try:
        if kind in _LEFT_OUT:
            raise Untakable(_LEFT_OUT[kind] + patches.KEEP)
        if kind not in ("MutatingPolicy", "ValidatingPolicy"):
            raise Untakable("it configures Kyverno, and Fairlead has no counterpart")
        policy = document.parse(_Policy)
        mode = policy.spec.evaluation.mode
        if mode != "Kubernetes":
            raise Untakable(f"evaluation.mode {mode}: it is not about objects of Kubernetes")
        if kind == "MutatingPolicy":
            _mutate(document, policy, findings, expressions)
        else:
            _validate(document, policy, findings, expressions)
    except Untakable as error:
        findings.leave_out(origin_of(document), *error.args)


def _mutate(
    document: yaml_files.Document, policy: _Policy, findings: Findings, expressions: Expressions
) -> None:
    spec = policy.spec
    by_name = variables(document, ("spec", "variables"), spec.variables, expressions)
    mutations = [
        (at, inlined(expressions.tree(document, at, text), by_name))
        for at, text in _mutations(spec)
    ]
    _check_placing(spec, [node for _, node in mutations])
    conditions = [
        inlined(expressions.tree(document, at, each.expression), by_name)
        for at, each in _numbered(("spec", "matchConditions"), spec.match_conditions)
    ]
    own = policy.metadata.namespace or "default"
    kyverno_placement.Reader(
        document=document,
        mutations=mutations,
        conditions=conditions,
        selector=spec.match_constraints.namespace_selector,
        namespace=own if document.value["kind"].startswith("Namespaced") else None,
    ).collect(findings)
    merges = any(each.apply_configuration for each in spec.mutations)
    if merges and not spec.evaluation.use_server_side_apply:
        findings.differ([_MERGED])


def _check_placing(spec: _Spec, mutations: Sequence[Node]) -> None:
    """Raises Untakable if a policy places no new pods, or some of a namespace only."""
    kinds = spec.kinds()
    if not mutations:
        raise Untakable("it does nothing")
    if not any(mentions(node, patches.PLACING) for node in mutations):
        raise Untakable(patches.elsewhere(str(kinds)))
    if spec.target_match_constraints or spec.evaluation.mutate_existing.enabled:
        raise Untakable(
            "it changes objects that are there already, and Fairlead places new pods" + patches.KEEP
        )
    check_pods(kinds)
    _check_in_force(spec)
    if fields := _conditions(spec):
        raise Untakable(without(fields, "pods"))


def _mutations(spec: _Spec) -> list[tuple[Location, str]]:
    return [
        (("spec", "mutations", number, name, "expression"), patch.expression)
        for number, mutation in enumerate(spec.mutations)
        for name, patch in (
            ("jsonPatch", mutation.json_patch),
            ("applyConfiguration", mutation.apply_configuration),
        )
        if patch
    ]


def _validate(
    document: yaml_files.Document, policy: _Policy, findings: Findings, expressions: Expressions
) -> None:
    spec, kinds = policy.spec, policy.spec.kinds()
    by_name = variables(document, ("spec", "variables"), spec.variables, expressions)
    texts = [
        ((*at, "expression"), each.expression)
        for at, each in _numbered(("spec", "validations"), spec.validations)
    ]
    asked = kyverno_validation.of_expressions(document, texts, by_name, expressions, kinds)

    def scopes() -> list[Scope]:
        _check_in_force(spec)
        fields = _conditions(spec)
        at = ("spec", "matchConditions")
        named = (spec.match_conditions, spec.variables)
        if not hold(document, at, *named, expressions):
            fields.append("matchConditions")
        if fields:
            raise Untakable(without(fields, "objects"))
        is_own = document.value["kind"].startswith("Namespaced")
        names = [policy.metadata.namespace or "default"] if is_own else []
        selector = namespaces(names, spec.match_constraints.namespace_selector)
        rules = spec.match_constraints.resource_rules
        only_new = not (
            any(rule.concerns("UPDATE") for rule in rules)
            and hold(document, at, *named, expressions, "UPDATE")
        )
        return [Scope(kinds, selector, Exempt(), only_new=only_new)]

    mode = _mode(spec.validation_actions)
    kyverno_validation.take_over(
        kyverno_validation.Policy(
            origin_of(document), policy.metadata.name, mode, "validationActions Audit"
        ),
        asked,
        kinds,
        scopes,
        findings,
    )


def _mode(actions: Sequence[str]) -> str | None:
    """The enforcement; None if the policy only reports."""
    if not actions or "Deny" in actions:
        return "deny"
    return "warn" if "Warn" in actions else None


def _check_in_force(spec: _Spec) -> None:
    if not spec.evaluation.admission.enabled:
        raise Untakable("evaluation.admission.enabled is false, so it decides about no new object")
    rules = spec.match_constraints.resource_rules
    if not all(rule.concerns("CREATE") for rule in rules):
        raise Untakable(
            "matchConstraints.resourceRules leaves out CREATE, when Fairlead decides: name it"
        )


def _conditions(spec: _Spec) -> list[str]:
    """The fields that make the policy about some objects only."""
    constraints = spec.match_constraints
    fields = [f"matchConstraints.{name}" for name in unknown(constraints)]
    of_rules = {name for rule in constraints.resource_rules for name in unknown(rule)}
    return fields + [f"matchConstraints.resourceRules.{name}" for name in sorted(of_rules)]


def _numbered(at: Location, entries: Sequence[Any]) -> list[tuple[Location, Any]]:
    return [((*at, number), each) for number, each in enumerate(entries)]


def hold(
    document: yaml_files.Document,
    at: Location,
    conditions: Sequence[Named],
    named: Sequence[Named],
    expressions: Expressions,
    operation: str = "CREATE",
) -> bool:
    """Whether conditions are true of every object in a request of this operation. Raises
    InputError.
    """
    evaluation = Evaluation({}, guess=False, is_pod=False, operation=operation)
    by_name = variables(document, (*at[:-1], "variables"), named, expressions)
    try:
        return (
            all(
                evaluation.holds(inlined(expressions.tree(document, at, each.expression), by_name))
                for each in conditions
            )
            and not evaluation.guessed
        )
    except Untakable:
        return False

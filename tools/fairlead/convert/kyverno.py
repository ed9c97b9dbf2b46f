"""Reads objects of Kyverno: rules of ClusterPolicies and Policies that place pods, or that validate
what an intent of Fairlead decides about. Those in CEL are read by kyverno_cel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Location
from fairlead.convert import (
    checks,
    kyverno_cel,
    kyverno_patterns,
    kyverno_scope,
    kyverno_validation,
    patches,
)
from fairlead.convert.cel import Expressions, Named, variables
from fairlead.convert.findings import Findings, Origin, origin_of
from fairlead.convert.kyverno_scope import Match
from fairlead.convert.kyverno_validation import Asked
from fairlead.convert.parameters import Kinds
from fairlead.convert.patches import KEEP as _KEEP
from fairlead.convert.patches import Patched
from fairlead.convert.reading import Lenient, Metadata, group_of, unknown
from fairlead.convert.targets import Untakable

_SAY_NOTHING = ("context", "imageExtractors", "reportProperties", "skipBackgroundRequests")
"""Fields of a rule that change nothing by themselves."""

# Why an object is left out: by its group, or by its kind.
_LEFT_OUT = {
    "cli.kyverno.io": "it is for tests of policies, and is none: leave it out",
    "chainsaw.kyverno.io": "it is for tests of policies, and is none: leave it out",
    "reports.kyverno.io": "it reports on objects, and is no policy: leave it out",
    "CleanupPolicy": "it deletes objects by a schedule, and Fairlead deletes none: keep Kyverno "
    "for it",
    "ClusterCleanupPolicy": "it deletes objects by a schedule, and Fairlead deletes none: keep "
    "Kyverno for it",
    "GlobalContextEntry": "it is data for policies of Kyverno: keep it with those that use it",
    "PolicyException": "it excepts objects from policies of Kyverno, which is not read: exempt "
    "namespaces, users or groups from an instance, if that will do",
}


class _Mutate(Lenient):
    patch_strategic_merge: dict[str, Any] | None = None
    patches_json6902: str | None = None


class _Rule(Lenient):
    name: str = ""
    match: Match = Match()
    exclude: Match | None = None
    mutate: _Mutate | None = None
    validation: dict[str, Any] | None = Field(None, alias="validate")
    generate: dict[str, Any] | None = None
    verify_images: list[Any] | None = None
    preconditions: Any = None
    cel_preconditions: list[Named] = []


class _Cel(Lenient):
    variables: list[Named] = []
    expressions: list[Named] = []


class _Spec(Lenient):
    rules: list[_Rule]
    admission: bool = True
    apply_rules: str = "All"
    validation_failure_action: str = "Audit"
    validation_failure_action_overrides: list[Any] = []
    emit_warning: bool = False
    webhook_configuration: dict[str, Any] = {}


class _Policy(Lenient):
    kind: str
    metadata: Metadata
    spec: _Spec


def concerns(value: dict[str, Any]) -> bool:
    """Whether an object is one of Kyverno's."""
    return f".{group_of(value)}".endswith(".kyverno.io")


def collect(document: yaml_files.Document, findings: Findings, expressions: Expressions) -> None:
    """Add what an object of Kyverno says. Raises InputError."""
    kind, group = document.value["kind"], group_of(document.value)
    reason = _LEFT_OUT.get(group) or _LEFT_OUT.get(kind)
    try:
        if group == kyverno_cel.GROUP and not reason:
            kyverno_cel.collect(document, findings, expressions)
        elif group == "kyverno.io" and kind in ("ClusterPolicy", "Policy"):
            _collect_policy(document, findings, expressions)
        else:
            reason = reason or "it configures Kyverno, and Fairlead has no counterpart"
    except RecursionError:
        reason = "it is nested too deeply to be read: declare what it does by hand"
    if reason:
        findings.leave_out(origin_of(document), reason)


def _collect_policy(
    document: yaml_files.Document, findings: Findings, expressions: Expressions
) -> None:
    policy = document.parse(_Policy)
    if not policy.spec.admission:
        reason = "spec.admission is false, so it decides about no new object"
        findings.leave_out(origin_of(document), reason)
        return
    for number, rule in enumerate(policy.spec.rules):
        title = f' rule "{rule.name}"' if rule.name else f" rule {number + 1}"
        origin = origin_of(document, title, ("spec", "rules", number))
        try:
            _Reader(document, policy, number, origin, findings, expressions).collect()
        except Untakable as error:
            findings.leave_out(origin, str(error))


@dataclass(frozen=True)
class _Reader:
    """Reads one rule. What it does comes first, then what it is about, then its conditions: the
    first of these that keeps it from being taken over is the reason.
    """

    document: yaml_files.Document
    policy: _Policy
    number: int
    origin: Origin
    findings: Findings
    expressions: Expressions

    @property
    def rule(self) -> _Rule:
        """The rule."""
        return self.policy.spec.rules[self.number]

    @property
    def at(self) -> Location:
        """Where the rule stands."""
        return ("spec", "rules", self.number)

    def collect(self) -> None:
        """Add what the rule says. Raises Untakable, InputError."""
        rule = self.rule
        if rule.generate is not None:
            made = rule.generate.get("kind") or "objects"
            raise Untakable(f"it generates {made}, and Fairlead generates nothing{_KEEP}")
        if rule.verify_images is not None:
            raise Untakable(f"it verifies images, and no intent of Fairlead does{_KEEP}")
        if rule.validation is not None:
            self._validate(rule.validation)
        elif rule.mutate is not None:
            self._mutate(rule.mutate)
        else:
            raise Untakable("it does nothing")

    def _conditions(self) -> list[str]:
        """The fields that make the rule about some objects only."""
        rule, spec = self.rule, self.policy.spec
        fields = self._preconditions("CREATE")
        if spec.webhook_configuration.get("matchConditions"):
            fields.append("webhookConfiguration.matchConditions")
        if spec.apply_rules != "All" and len(spec.rules) > 1:
            fields.append("spec.applyRules")
        return [*fields, *unknown(rule, *_SAY_NOTHING)]

    def _preconditions(self, operation: str) -> list[str]:
        """The fields with preconditions that may not hold for a request of this operation."""
        fields = kyverno_scope.preconditions(self.rule.preconditions, operation)
        at, conditions = (*self.at, "celPreconditions"), self.rule.cel_preconditions
        if not kyverno_cel.hold(self.document, at, conditions, (), self.expressions, operation):
            fields.append("celPreconditions")
        return fields

    def _mutate(self, mutate: _Mutate) -> None:
        value = self.document.value["spec"]["rules"][self.number]["mutate"]
        kinds = kyverno_scope.kinds_of(self.rule.match, {})
        if "targets" in value:
            raise Untakable(
                "mutate.targets: it changes objects that are there already, and Fairlead places "
                f"new pods{_KEEP}"
            )
        variables = patches.has_variables(value)
        patched = Patched() if variables else self._patched(mutate)
        if not patches.PLACING.search(json.dumps(value)):
            raise Untakable(patches.elsewhere(str(kinds)))
        kyverno_scope.check_pods(kinds)
        if variables:
            raise Untakable("it has variables, and a pool has constants: write the values")
        if fields := unknown(mutate):
            raise Untakable(f"mutate.{fields[0]}: convert reads no patches there{_KEEP}")
        metadata, kind, rule = self.policy.metadata, self.policy.kind, self.rule
        try:
            targets = kyverno_scope.targets_of(
                metadata, kind, rule.match, rule.exclude, self._conditions()
            )
        except Untakable as error:
            if patched.node_selector:
                raise
            alone = "tolerations alone make no pool, without another policy's nodeSelector"
            raise Untakable(f"{error}; {alone}") from error
        patches.place(self.findings, self.origin, patched, targets)

    def _patched(self, mutate: _Mutate) -> Patched:
        """What the rule gives pods. Raises InputError."""
        at = (*self.at, "mutate")
        if mutate.patch_strategic_merge is not None:
            at = (*at, "patchStrategicMerge")
            return patches.merged(self.document, at, mutate.patch_strategic_merge)
        if mutate.patches_json6902 is not None:
            at = (*at, "patchesJson6902")
            return patches.applied(self.document, at, mutate.patches_json6902)
        return Patched()

    def _validate(self, validation: dict[str, Any]) -> None:
        metadata, kind, rule = self.policy.metadata, self.policy.kind, self.rule
        kinds = kyverno_scope.kinds_of(rule.match, metadata.annotations)
        several = len(self.policy.spec.rules) > 1 and rule.name
        mode, reports_only = _mode(self.policy.spec, validation)
        name = f"{metadata.name}-{rule.name}" if several else metadata.name
        kyverno_validation.take_over(
            kyverno_validation.Policy(self.origin, name, mode, reports_only),
            self._asked(validation, kinds),
            kinds,
            lambda: kyverno_scope.scopes_of(
                metadata,
                kind,
                rule.match,
                rule.exclude,
                self._conditions(),
                only_new=bool(self._preconditions("UPDATE")),
            ),
            self.findings,
        )
        overrides = "failureActionOverrides"
        if self.policy.spec.validation_failure_action_overrides or validation.get(overrides):
            self.findings.leave_out(
                self.origin,
                f"{overrides}: Fairlead has one enforcement for each instance: make another "
                "instance for these namespaces",
            )

    def _asked(self, validation: dict[str, Any], kinds: Kinds) -> Asked:
        """What the rule asks for. Raises Untakable, InputError."""
        if "podSecurity" in validation:
            raise Untakable(_POD_SECURITY)
        for name in _UNREAD:
            if name in validation:
                raise Untakable(checks.unread(kinds, f"validate.{name}"))
        if isinstance(cel := validation.get("cel"), dict):
            if cel.get("paramKind"):
                raise Untakable(checks.unread(kinds, "other objects (validate.cel.paramKind)"))
            at = (*self.at, "validate", "cel")
            part = self.document.at(at, cel)
            spec = part.parse(_Cel)
            by_name = variables(part, ("variables",), spec.variables, self.expressions)
            texts = [
                (("expressions", number, "expression"), each.expression)
                for number, each in enumerate(spec.expressions)
            ]
            return kyverno_validation.of_expressions(part, texts, by_name, self.expressions, kinds)
        patterns = validation.get("anyPattern") or [validation.get("pattern")]
        if not all(patterns):
            raise Untakable("it asks for nothing")
        if patches.has_variables(patterns):
            raise Untakable(checks.unread(kinds, "a pattern with variables"))
        try:
            return Asked([[list(kyverno_patterns.checks(each)) for each in patterns]])
        except Untakable as error:
            raise Untakable(checks.unread(kinds, f"a pattern in which {error}")) from error


_UNREAD = ("deny", "foreach", "manifests", "assert")
_POD_SECURITY = (
    "it checks Pod Security Standards, and no intent of Fairlead does: API servers check them by "
    "labels of namespaces (pod-security.kubernetes.io/enforce)"
)


def _mode(spec: _Spec, validation: Mapping[str, Any]) -> tuple[str | None, str]:
    """The enforcement, which is None if the rule only reports, and the field that says so."""
    own = validation.get("failureAction")
    field = "validate.failureAction" if own else "validationFailureAction"
    action = str(own or spec.validation_failure_action)
    if action.lower() == "enforce":
        return "deny", ""
    return ("warn" if spec.emit_warning else None), f"{field} {action}"

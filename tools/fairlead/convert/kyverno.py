"""Reads policies of Kyverno that place pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairlead.common import yaml_files
from fairlead.convert import patches
from fairlead.convert.findings import (
    REPLACED,
    Findings,
    Named,
    Placement,
    Target,
    origin_of,
)
from fairlead.convert.patches import Patched
from fairlead.convert.reading import AnySelector, Lenient, Metadata, group_of, unknown
from fairlead.convert.targets import Untakable, check_names, targets

_PODS = ("Pod", "v1/Pod", "*/Pod", "/v1/Pod", "*/v1/Pod")
_SAY_NOTHING = ("skipBackgroundRequests", "reportProperties")
_NO_RULES = ("validate", "generate", "verifyImages")
_ONE_NAMESPACE = "Fairlead decides about all pods of a namespace"


class _Resources(Lenient):
    kinds: list[str] = []
    namespaces: list[str] = []
    namespace_selector: AnySelector | None = None
    operations: list[str] = []


class _Filter(Lenient):
    resources: _Resources = _Resources()


class _Match(Lenient):
    any: list[_Filter] = []
    all: list[_Filter] = []
    resources: _Resources | None = None

    def filters(self) -> list[_Filter]:
        """The filters, one of which has to match. Raises Untakable."""
        if (self.any and self.all) or len(self.all) > 1:
            raise Untakable("match.all: several filters have to match: write one of them")
        if self.any or self.all:
            if fields := unknown(self):
                raise Untakable(f"{fields[0]}: {_ONE_NAMESPACE}, whoever asks: remove it")
            return self.any or self.all
        extra = dict(self.model_extra or {})
        return [_Filter.model_validate({"resources": self.resources or _Resources(), **extra})]


class _Mutate(Lenient):
    patch_strategic_merge: dict[str, Any] | None = None
    patches_json6902: str | None = None


class _Rule(Lenient):
    name: str = ""
    match: _Match = _Match()
    exclude: _Match | None = None
    mutate: _Mutate | None = None


class _Spec(Lenient):
    rules: list[_Rule]
    admission: bool = True
    apply_rules: str = "All"


class _Policy(Lenient):
    kind: str
    metadata: Metadata
    spec: _Spec


def concerns(value: dict[str, Any]) -> bool:
    """Whether an object is one of Kyverno's."""
    return f".{group_of(value)}".endswith(".kyverno.io")


def collect(document: yaml_files.Document, findings: Findings) -> None:
    """Add what an object of Kyverno says. Raises InputError."""
    kind, group = document.value["kind"], group_of(document.value)
    origin = origin_of(document)
    if group != "kyverno.io" or kind not in ("ClusterPolicy", "Policy"):
        reason = (
            "its CEL expressions are not read: declare the pools by hand (docs/node-pool.md)"
            if group == "policies.kyverno.io"
            else "it is not a policy that places pods, and Fairlead has no counterpart"
        )
        findings.leave_out(origin, reason)
        return
    policy = document.parse(_Policy)
    if problem := _not_in_force(policy.spec):
        findings.leave_out(origin, problem)
        return
    for number, rule in enumerate(policy.spec.rules):
        title = f' rule "{rule.name}"' if rule.name else f" rule {number + 1}"
        origin = origin_of(document, title, ("spec", "rules", number))
        try:
            patched = _patched(document, number, rule)
            added = list(_targets(policy, rule))
        except Untakable as error:
            findings.leave_out(origin, str(error))
            continue
        findings.leave_out(origin, *patched.left_out)
        if patched.assignment().empty:
            continue
        if patched.yields and patched.node_selector:
            findings.leave_out(
                origin,
                "the anchor +(): pods that set the field themselves keep it there, but Fairlead "
                "refuses another value than the pool's: remove it from these pods",
            )
        elif patched.node_selector:
            findings.differ([REPLACED])
        assignment = patched.assignment()
        findings.placements += [Placement(origin, target, assignment) for target in added]


def _not_in_force(spec: _Spec) -> str | None:
    """Why the rules as a whole cannot be taken over."""
    if not spec.admission:
        return "spec.admission is false, so it places no new pod"
    if spec.apply_rules != "All" and len(spec.rules) > 1:
        return "spec.applyRules One: only its first rule that matches applies: make policies of it"
    webhook = (spec.model_extra or {}).get("webhookConfiguration")
    if isinstance(webhook, dict) and webhook.get("matchConditions"):
        return f"webhookConfiguration.matchConditions: {_ONE_NAMESPACE}: remove them"
    return None


def _patched(document: yaml_files.Document, number: int, rule: _Rule) -> Patched:
    """What a rule gives pods. Raises Untakable, InputError."""
    for key in unknown(rule, *_SAY_NOTHING):
        if key in _NO_RULES:
            raise Untakable(
                f"it has {key}, and only mutate is read: write a policy (fairlead new policy NAME)"
            )
        raise Untakable(f"{key}: {_ONE_NAMESPACE}, without conditions: remove it")
    if rule.mutate is None:
        raise Untakable("it does nothing")
    if fields := unknown(rule.mutate):
        raise Untakable(f"mutate.{fields[0]}: Fairlead only places new pods: keep Kyverno for it")
    value = document.value["spec"]["rules"][number]
    if patches.has_variables(value):
        raise Untakable("it has variables, and a pool has constants: write the values")
    at = ("spec", "rules", number, "mutate")
    if rule.mutate.patch_strategic_merge is not None:
        at_patch = (*at, "patchStrategicMerge")
        return patches.merged(document, at_patch, rule.mutate.patch_strategic_merge)
    if rule.mutate.patches_json6902 is not None:
        return patches.applied(document, (*at, "patchesJson6902"), rule.mutate.patches_json6902)
    raise Untakable("mutate has no patch")


def _targets(policy: _Policy, rule: _Rule) -> Iterator[Target]:
    """The namespaces whose pods a rule matches. Raises Untakable."""
    excluded = list(_excluded(rule.exclude))
    for filter_ in rule.match.filters():
        resources = filter_.resources
        if fields := unknown(filter_) or unknown(resources):
            raise Untakable(f"match.{fields[0]}: {_ONE_NAMESPACE}: remove it")
        if not any(kind in _PODS for kind in resources.kinds):
            raise Untakable(
                f"it is about {', '.join(resources.kinds) or 'no kind'}, and Fairlead places pods "
                "and the templates of DaemonSets: match Pod"
            )
        if resources.operations and "CREATE" not in resources.operations:
            raise Untakable("match.operations leaves out CREATE, when pods are placed")
        names = [] if resources.namespaces == ["*"] else resources.namespaces
        added = targets(names, resources.namespace_selector, excluded)
        if policy.kind == "ClusterPolicy":
            yield from added
        else:
            yield from _in_namespace(policy.metadata.namespace or "default", added)


def _in_namespace(name: str, targets: list[Target]) -> Iterator[Target]:
    """Those of a Policy, which is only about its own namespace. Raises Untakable."""
    check_names([name])
    for target in targets:
        match target:
            case Named(other_name) if other_name != name:
                continue
            case Named():
                yield target
            case _ if getattr(target, "excluded", None) is None:
                raise Untakable("it is about its own namespace: remove the namespaceSelector")
            case _ if name not in getattr(target, "excluded", ()):
                yield Named(name)


def _excluded(exclude: _Match | None) -> Iterator[str]:
    """The names of namespaces that a rule leaves out. Raises Untakable."""
    if exclude is None or not (exclude.any or exclude.all or exclude.resources):
        if exclude is not None and unknown(exclude):
            raise Untakable(f"exclude: {_ONE_NAMESPACE}, whoever asks: remove it")
        return
    for filter_ in exclude.filters():
        resources = filter_.resources
        fields = unknown(filter_) or unknown(resources) or resources.operations
        pods = not resources.kinds or any(kind in _PODS for kind in resources.kinds)
        if fields or resources.namespace_selector or not resources.namespaces or not pods:
            raise Untakable(
                "exclude: Fairlead leaves out whole namespaces by their names: name namespaces only"
            )
        yield from resources.namespaces

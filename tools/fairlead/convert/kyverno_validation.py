"""Makes instances of intents of what Kyverno's policies validate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fairlead.common import yaml_files
from fairlead.common.yaml_files import Location
from fairlead.convert import cel_checks, checks
from fairlead.convert.cel import Expressions, Node, inlined
from fairlead.convert.checks import Checks
from fairlead.convert.findings import Findings, Instance, Origin
from fairlead.convert.kyverno_scope import Scope
from fairlead.convert.parameters import Kinds
from fairlead.convert.targets import Untakable

_UPDATES = "an instance of an intent judges updates, too, where Kyverno judges new objects alone"


@dataclass
class Asked:
    """What a policy asks for: all `groups`, and one of the alternatives of each; and why the rest
    is left out.
    """

    groups: list[Sequence[Checks]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Policy:
    """A policy, or a rule of one: the name of its instances, their enforcement, and the field that
    says that it only reports, if the `mode` is None.
    """

    origin: Origin
    name: str
    mode: str | None
    reports_only: str


def of_expressions(
    document: yaml_files.Document,
    texts: Iterable[tuple[Location, str]],
    variables: Mapping[str, Node],
    expressions: Expressions,
    kinds: Kinds,
) -> Asked:
    """What conditions in CEL ask for, each with the place where it stands. Raises InputError."""
    asked = Asked()
    together: list[checks.Check] = []
    for at, text in texts:
        node = inlined(expressions.tree(document, at, text), variables)
        try:
            alternatives = cel_checks.alternatives(node)
        except cel_checks.Unread:
            fields = cel_checks.fields(node)
            asked.left_out.append(checks.unread(kinds, "a condition in CEL", fields))
            continue
        if len(alternatives) == 1:
            together += alternatives[0]
        else:
            asked.groups.append(alternatives)
    if together:
        asked.groups.append([together])
    return asked


def take_over(
    policy: Policy,
    asked: Asked,
    kinds: Kinds,
    scopes: Callable[[], Sequence[Scope]],
    findings: Findings,
) -> None:
    """Add the instances that ask for the same. The scopes are only asked for if there are some.
    Raises Untakable if nothing can be taken over, for more than the reasons that are noted.
    """
    groups = []
    for group in asked.groups:
        try:
            checks.outcome(group, kinds)
        except Untakable as error:
            asked.left_out += error.args
        else:
            groups.append(group)
    findings.leave_out(policy.origin, *asked.left_out)
    for scope in scopes() if groups else ():
        if scope.only_new:
            findings.differ([_UPDATES])
        for group in groups:
            _add(policy, group, scope, findings)


def _add(policy: Policy, alternatives: Sequence[Checks], scope: Scope, findings: Findings) -> None:
    outcome = checks.outcome(alternatives, scope.kinds)
    findings.leave_out(policy.origin, *outcome.left_out)
    for parameters in outcome.instances:
        findings.leave_out(policy.origin, *parameters.left_out)
        findings.differ(parameters.differences)
        instance = Instance(
            origin=policy.origin,
            name=policy.name,
            intent=parameters.intent,
            parameters=parameters.values,
            namespaces=scope.namespaces,
            exempt=scope.exempt,
            mode=policy.mode,
        )
        findings.add_instance(instance, reports_only=policy.reports_only)

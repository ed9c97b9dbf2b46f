"""Makes what lists the intents: policies/intents.rego."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairlead.policy import instances
from fairlead.policy.instances import Instance
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings
from fairlead.settings.selectors import Expression

INTENTS = "intents.rego"
_HEADER = """\
# Made from the intent.yaml of the policies by `make generate`: change that instead.

# METADATA
# title: Intents
# description: |
#   The intents in force, and the requests that each has a say in. A deployment makes this module
#   again, for its policies and settings.
package intents

"""


def intents_module(active: Sequence[Instance]) -> str:
    """The text of intents.rego."""
    packages = {instance.intent.package for instance in active}
    packages |= set() if all(instance.has_intents_name for instance in active) else {"settings"}
    imports = "".join(f"import data.{package}\n" for package in sorted(packages))
    names = ", ".join(json.dumps(instance.name) for instance in active)
    rules = [
        f"# METADATA\n# description: The names of the intents.\nnames := {{{names}}}\n".replace(
            "{}", "set()"
        ),
        "# METADATA\n# description: |\n"
        "#   The intents that have a say, by operation and by kind (`group/Kind`, or\n"
        "#   `group/Kind/subresource`). Each has a list of label selectors, one of which has to\n"
        "#   select the namespace.\n"
        f"requests := {_object(requests(active))}\n",
        "# METADATA\n# description: |\n"
        "#   Those of them that may refuse an object, in the same form, with the namespaces that\n"
        "#   their webhooks select. About an object that is too large for the policies, this\n"
        "#   table alone decides.\n"
        f"refusals := {_object(refusals(active))}\n",
    ]
    descriptions = {
        "decision": "What an intent has to say of the request.",
        "audit": "What audit logs say of a request that an intent admits; empty if it has no say.",
        "explanation": "The reasons of a decision, in sentences.",
    }
    for rule, description in descriptions.items():
        rules += [
            (f"# METADATA\n# description: {description}\n" if number == 0 else "")
            + f"{rule}s[{json.dumps(instance.name)}] := {_asked(instance, rule)}\n"
            for number, instance in enumerate(active)
        ]
    return _HEADER + (f"{imports}\n" if imports else "") + "\n".join(rules)


def _asked(instance: Instance, rule: str) -> str:
    """The value of an intent's rule with the parameters of the instance, and with its enforcement
    under the name of the intent.
    """
    value = f"{instance.intent.package}.{rule}"
    if instance.has_intents_name:
        return value
    name = json.dumps(instance.name)
    intent = json.dumps(instance.intent.name)
    return (
        f"{rule} if {{\n"
        f'\tenforcement := {{{intent}: object.get(settings.enforcement, {name}, "deny")}}\n'
        f"\t{rule} := {value} with data.settings.parameters as settings.instances[{name}] "
        "with data.settings.enforcement as enforcement\n}"
    )


def namespace_labels(active: Iterable[Instance], settings: Settings) -> list[str]:
    """The labels of namespaces that policies read, besides the pool label, sorted: those by which
    these intents select, and those that services read.
    """
    fixed = {settings.namespace_label, instances.NAME_LABEL}
    service_labels = (service.labels for service in settings.services())
    return sorted(set().union(*service_labels, *(instance.labels for instance in active)) - fixed)


Table = dict[str, dict[str, dict[str, list[list[Any]]]]]
"""By operation, kind and intent the selectors of namespaces."""


def requests(active: Sequence[Instance]) -> Table:
    """`data.intents.requests`."""
    return _table(
        (
            instance,
            request,
            instances.exempt_namespaces(instance.exempt)
            if instance.intent.facts.decides_on_namespaces
            else request.namespaces.expressions,
        )
        for instance in active
        for request in instance.requests
    )


def refusals(active: Sequence[Instance]) -> Table:
    """`data.intents.refusals`: what stores an object, and does not fail open by intent.yaml."""
    return _table(
        (
            instance,
            request.model_copy(update={"operations": stored}),
            request.namespaces.expressions,
        )
        for instance in active
        for request in instance.requests
        if request.failure_policy != "Ignore"
        and (stored := [name for name in request.operations if name in ("CREATE", "UPDATE")])
    )


def _table(rows: Iterable[tuple[Instance, Request, Sequence[Expression]]]) -> Table:
    table: Table = {}
    for instance, request, expressions in rows:
        selector = [expression.document() for expression in expressions]
        for operation in request.operations:
            for kind in request.kinds:
                intents = table.setdefault(operation, {}).setdefault(kind.path, {})
                selectors = intents.setdefault(instance.name, [])
                if selector not in selectors:
                    selectors.append(selector)
    return table


def _object(table: Mapping[str, Mapping[str, Any]]) -> str:
    """A table as `opa fmt` writes it, with a line for each kind."""
    if not table:
        return "{}"
    lines = []
    for operation in sorted(table):
        lines.append(f"\t{json.dumps(operation)}: {{")
        lines += [
            f"\t\t{json.dumps(kind)}: {json.dumps(table[operation][kind], sort_keys=True)},"
            for kind in sorted(table[operation])
        ]
        lines.append("\t},")
    return "\n".join(["{", *lines, "}"])

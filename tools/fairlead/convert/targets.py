"""Which namespaces a policy is about, as far as the label of a namespace can say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fairlead.convert.findings import Everywhere, Labelled, Named, Target
from fairlead.convert.reading import AnySelector, unknown
from fairlead.deployment.names import EXEMPT
from fairlead.settings.selectors import Expression, Selector

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with its own name that each namespace has."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Untakable(Exception):
    """The settings cannot say this; the message is the reason, and the way out."""


def targets(
    names: Sequence[str], selector: AnySelector | None, excluded: Sequence[str] = ()
) -> list[Target]:
    """The targets of a policy for the namespaces with these `names` (all if there are none) and
    this `selector`, without those `excluded`. Raises Untakable.
    """
    check_names([*names, *excluded])
    left_out = frozenset(excluded) - frozenset(EXEMPT)
    expressions = selected(selector).expressions
    if names and expressions:
        raise Untakable(
            "it selects namespaces by their names and by a selector, and both have to hold: "
            "name the namespaces, or label them for Fairlead"
        )
    if names:
        return [Named(name) for name in dict.fromkeys(names) if name not in left_out]
    if not expressions:
        return [Everywhere(left_out)]
    return list(_by_label(expressions, left_out))


def selected(selector: AnySelector | None) -> Selector:
    """The selector of namespaces as the settings have it. Raises Untakable."""
    if selector is None:
        return Selector()
    if fields := unknown(selector):
        raise Untakable(f"the namespaceSelector has the unknown field {fields[0]}")
    try:
        return selector.selector()
    except ValueError as error:
        raise Untakable(
            f"Kubernetes does not take its namespaceSelector ({error}): select namespaces by "
            "labels without wildcards"
        ) from error


def namespaces(names: Sequence[str], selector: AnySelector | None) -> Selector:
    """The selector of the namespaces with these names (all if there are none) and labels. Raises
    Untakable.
    """
    check_names(names)
    result = selected(selector)
    if not names:
        return result
    by_name = Expression(key=NAME_LABEL, operator="In", values=list(dict.fromkeys(names)))
    return result.model_copy(update={"match_expressions": [*result.match_expressions, by_name]})


def check_names(names: Sequence[str]) -> None:
    """Raises Untakable for what is not the name of one namespace."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise Untakable(
                f"{name!r} is not the name of one namespace: write each name, without wildcards"
            )


def _by_label(expressions: Sequence[Expression], left_out: frozenset[str]) -> Iterator[Target]:
    (expression, *surplus) = expressions
    if surplus or expression.operator != "In":
        raise Untakable(
            "Fairlead finds the pool of a namespace by one label and its value, which this "
            f"namespaceSelector ({shown(expressions)}) is not: give these namespaces a label, and "
            "make a pool for it"
        )
    if expression.key == NAME_LABEL:
        check_names(expression.values)
        yield from (Named(name) for name in expression.values if name not in left_out)
        return
    if left_out:
        raise Untakable(
            f"it leaves out namespaces ({', '.join(sorted(left_out))}), but in Fairlead all "
            "namespaces with the label belong to the pool: take the label from them, and remove "
            "excludedNamespaces"
        )
    for value in dict.fromkeys(expression.values):
        if not value:
            raise Untakable(
                f"it selects an empty label {expression.key}, which opts out in Fairlead: give "
                "these namespaces a value"
            )
        yield Labelled(expression.key, value)


def shown(expressions: Sequence[Expression]) -> str:
    """Requirements as `kubectl get -l` takes them."""
    forms = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}"}
    texts = []
    for expression in expressions:
        form = forms.get(expression.operator, "!{key}")
        texts.append(form.format(key=expression.key, values=",".join(expression.values)))
    return ", ".join(texts)

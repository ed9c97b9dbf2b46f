"""The expressions of one policy, with no more than its requests need.

The definition of an intent in CEL is about all requests and all settings. A policy is about some
requests, and the settings are known when it is rendered. So what these decide is decided then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from fairlead.engines.cel import literals, macros, writing
from fairlead.engines.cel.expressions import Node, literal, parse
from fairlead.engines.cel.folding import Folding, Known
from fairlead.policy.requests import Request

_OPERATION, _KIND = parse("request.operation"), parse("request.kind.kind")
_GROUP = parse("request.kind.group")
LARGEST = 90_000
"""Characters of a part of the parameters that is a variable. API servers parse expressions of up to
100,000. Below that, a variable is faster than an object with the parameters, which they convert for
each evaluation: 200 pools in an object made a new pod take four times as long as in a variable.
"""


def known(request: Request, parameters: Node) -> Known:
    """What is known about each request of a policy. Raises ValueError if a condition of the
    request is not CEL.
    """
    kinds = [kind.path.split("/") for kind in request.kinds]
    choices = {
        _OPERATION: frozenset[str](request.operations),
        _GROUP: frozenset(group for group, *_ in kinds),
        _KIND: frozenset(kind for _, kind, *_ in kinds),
    }
    values = {node: literal(*texts) for node, texts in choices.items() if len(texts) == 1}
    for requirement in request.namespaces.expressions:
        label = parse(f"namespaceObject.metadata.?labels[?{literals.text(requirement.key)}]")
        if requirement.operator == "DoesNotExist":
            values[label] = parse("optional.none()")
        elif requirement.operator == "In" and len(requirement.values) == 1:
            (value,) = requirement.values
            values[label] = parse(f"optional.of({literals.text(value)})")
    conditions = [each.manifest(request.operations)["expression"] for each in request.conditions]
    return Known(parameters, values, choices, [*map(parse, conditions)])


def specialised(
    variables: Mapping[str, str], texts: Sequence[str], known: Known
) -> tuple[dict[str, str], list[str]]:
    """The expressions `texts`, and the variables that they still read, which come first to last.

    Lists and maps of the parameters are variables, too, unless they are too large. A variable that
    is read once stands where it is read, unless a macro could evaluate it again and
    again, or has its own share of the cost that an API server allows to each expression.
    """
    defined = {name: parse(text) for name, text in variables.items()}
    results = [parse(text) for text in texts]
    while True:
        defined = {name: defined[name] for name in _needed(defined, results)}
        folded: dict[str, Node] = {}
        folder = Folding(known, folded)
        for name, node in defined.items():
            folded[name] = folder.fold(node)
        results = [folder.fold(node) for node in results]
        defined = {name: folded[name] for name in _needed(folded, results)}
        once = _read_once(defined, results)
        if not once:
            return _written(defined, results, folder)
        for name, node in defined.items():
            defined[name] = _inlined(node, defined, once)
        results = [_inlined(node, defined, once) for node in results]


def _written(
    variables: Mapping[str, Node], results: Sequence[Node], folder: Folding
) -> tuple[dict[str, str], list[str]]:
    parameters: dict[Node, str] = {}

    def read(node: Node) -> Node:
        """The node with variables in place of parameters."""
        value = folder.parameter(node)
        if value is None or len(writing.line(value)) > LARGEST:
            return node.having(tuple(map(read, node.args)))
        parameters.setdefault(value, f"fairlead_parameter_{len(parameters)}")
        return parse(f"variables.{parameters[value]}")

    read_variables = {name: writing.text(read(node)) for name, node in variables.items()}
    read_results = [writing.text(read(node)) for node in results]
    literal_values = {name: writing.text(value) for value, name in parameters.items()}
    return {**literal_values, **read_variables}, read_results


def _needed(variables: Mapping[str, Node], results: Sequence[Node]) -> list[str]:
    """The names of the variables that are read, directly or not, in their order."""
    needed = {name for node in results for name, _ in macros.reads(node)}
    for name, variable in reversed([*variables.items()]):
        if name in needed:
            needed |= {read for read, _ in macros.reads(variable)}
    return [name for name in variables if name in needed]


def _read_once(variables: Mapping[str, Node], results: Sequence[Node]) -> set[str]:
    """The variables that are read in a single place, which no macro repeats."""
    reads = Counter(read for node in [*variables.values(), *results] for read in macros.reads(node))
    return {
        name
        for name, node in variables.items()
        if reads[name, False] == 1 and not reads[name, True] and not macros.has_macros(node)
    }


def _inlined(node: Node, variables: Mapping[str, Node], names: set[str]) -> Node:
    if node.kind == "." and node.args[0] == Node("name", "variables") and node.value in names:
        return variables[node.value]
    return node.having(tuple(_inlined(arg, variables, names) for arg in node.args))

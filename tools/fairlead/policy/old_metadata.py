"""Reads intents as earlier versions wrote them: as YAML with Jinja2 expressions, under `custom` in
the METADATA of the Rego.

A cluster, or its history, may still have such policies: `intent`. `converted` moves what a file
says into an intent.yaml, for `fairlead new intent-file`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, TemplateError, nodes
from pydantic import ValidationError

from fairlead.common import files, mistakes
from fairlead.common.errors import InputError
from fairlead.policy import expressions, metadata
from fairlead.policy.intent_file import ENGINES, FILE, Facts
from fairlead.policy.intents import Intent
from fairlead.policy.metadata import PackageMetadata
from fairlead.policy.requests import Request

_FACTS = ("requests", "enabled", "decidesOnNamespaces", "namespaceLabels", "parameters")


@dataclass(frozen=True)
class _OldIntent(Intent):
    """An intent whose requests are evaluated as earlier versions did."""

    written: tuple[dict[str, Any], ...] = ()

    def requests(self, settings: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Request]:
        names = {"settings": settings, "parameters": parameters}
        try:
            values = [expressions.rendered(value, names) for value in self.written]
            return [
                Request.model_validate({k: v for k, v in value.items() if k != "when"})
                for value in values
                if value.get("when", True)
            ]
        except (ValidationError, TemplateError, *expressions.MISTAKES) as error:
            problem = " ".join(str(error).split())[:200]
            raise InputError(self.source, f"METADATA: custom.requests: {problem}") from error


def intent(described: PackageMetadata, source: str) -> Intent | None:
    """The intent that a module in a cluster describes in its METADATA; None if it describes none.
    Raises InputError.
    """
    custom = described.annotations.get("custom")
    if not isinstance(custom, dict) or "requests" not in custom:
        return None
    values = {key: custom[key] for key in _FACTS if key in custom and key != "requests"}
    try:
        # Requests that are evaluated elsewhere; everything else is as in intent.yaml.
        facts = Facts.model_validate({**values, "requests": [_ANY]})
    except ValidationError as error:
        text = mistakes.of(error, Facts, custom)[0].text
        raise InputError(source, f"METADATA: custom.{text}", line=described.line) from error
    return _OldIntent(
        name=described.package.split(".")[-1].replace("_", "-"),
        title=described.title,
        description=described.description,
        facts=facts,
        source=source,
        text="",
        document=files.Document(Path(source), custom, None),
        written=tuple(custom["requests"]),
    )


_ANY = {"kinds": ["v1/Pod"], "operations": ["CREATE"]}


def converted(module: Path, schema: str | None) -> dict[Path, str] | None:
    """The text of intent.yaml, and that of the Rego without what moved there; None if its METADATA
    have no requests. `schema` is where the JSON schema is, seen from there.

    Comments stay. Expressions that have no other form stay, too; reading the file names them.
    Raises InputError if there is an intent.yaml already.
    """
    text = files.read_text(module)
    block = metadata.BLOCK.search(text)
    described = metadata.of(text, module)
    custom = described.annotations.get("custom") if described else None
    if block is None or not isinstance(custom, dict) or "requests" not in custom:
        return None
    path = module.with_name(FILE)
    if path.exists():
        raise InputError(path, f"is there already: remove it, or custom.requests of {module.name}")
    facts, annotations = _divided(metadata.uncommented(block[1]))
    folder = module.parent / "engines"
    engines = [engine for engine, file in ENGINES.items() if (folder / file).is_file()]
    head = f"# yaml-language-server: $schema={schema}\n" if schema else ""
    head += f"writtenFor: [{', '.join(engines)}]\n" if engines else ""
    begin, end = block.span(1)
    return {
        path: head + _without_expressions(facts),
        module: text[:begin] + metadata.commented(annotations) + text[end:],
    }


def _divided(annotations: str) -> tuple[str, str]:
    """The lines below `custom` that are facts, and all other lines of the annotations."""
    root = yaml.compose(annotations, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # noqa: S101 - it has the key `custom`
    lines = annotations.splitlines()
    starts = {key.value: key.start_mark.line for key, _ in root.value}
    first = starts["custom"]
    last = min((line for line in starts.values() if line > first), default=len(lines))
    custom = next(value for key, value in root.value if key.value == "custom")
    keys = [(key.value, key.start_mark.line) for key, _ in custom.value]
    parts: dict[bool, list[str]] = {True: [], False: []}
    ends = [*(line for _, line in keys[1:]), last]
    for (key, begin), end in zip(keys, ends, strict=True):
        parts[key in _FACTS] += lines[begin:end]
    head = lines[: first + 1] if parts[False] else lines[:first]
    remaining = [*head, *parts[False], *lines[last:]]
    return textwrap.dedent("\n".join(parts[True])) + "\n", "\n".join(remaining) + "\n"


def _without_expressions(facts: str) -> str:
    """intent.yaml with references, `when` and `unless` in place of expressions."""
    root = yaml.compose(facts, yaml.SafeLoader)
    changes = sorted(_changes(root, facts, ()), key=lambda change: change[0], reverse=True)
    for begin, end, new in dict.fromkeys(changes):
        facts = facts[:begin] + new + facts[end:]
    return facts


Change = tuple[int, int, str]
"""Where a text begins and ends, and what takes its place."""


def _changes(
    node: yaml.Node | None, facts: str, path: tuple[str, ...], ids: frozenset[int] = frozenset()
) -> Iterator[Change]:
    """What changes below a node. An alias stands for a node that is elsewhere."""
    if path[:1] == ("parameters",) or node is None:
        return
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "when" and (tests := _tests_of(value)):
                yield key.start_mark.index, _end(value, facts), tests
            elif key.value == "expression" and (texts := _alternatives(value, facts)):
                indent = key.start_mark.column * " "
                yield key.start_mark.index, _end(value, facts), _any_of(texts, indent)
            else:
                yield from _changes(value, facts, (*path, key.value), ids)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _changes(item, facts, (*path, ""), ids)
    elif isinstance(node, yaml.ScalarNode) and "{{" in node.value:
        begin, end = node.start_mark.index, _end(node, facts)
        new = _in_cel(facts[begin:end]) if path[-1:] == ("expression",) else _scalar(node, path)
        if new is not None:
            yield begin, end, new


def _end(node: yaml.Node, facts: str) -> int:
    """Where a node ends, without the line breaks after it."""
    end = node.end_mark.index
    return end - (len(facts[:end]) - len(facts[:end].rstrip()))


def _in_cel(text: str) -> str:
    """An expression in CEL, as the file has it, with references in place of names in braces."""
    return re.sub(
        r"'{2}\{\{\s*([\w.]+)\s*\}\}'{2}|'\{\{\s*([\w.]+)\s*\}\}'|\{\{\s*([\w.]+)\s*\}\}",
        lambda match: f"$({match[1] or match[2] or match[3]})",
        text,
    )


def _scalar(node: yaml.ScalarNode, above: tuple[str, ...]) -> str | None:
    """What says the same as a text with an expression; None if nothing does."""
    expression = _expression(node.value)
    if expression is None:
        return None
    if isinstance(expression, nodes.CondExpr) and isinstance(expression.expr1, nodes.Dict):
        return _requirement(expression)
    if above[-1] in ("values", "kinds"):
        items = _items(expression)
        return None if items is None else f"[{', '.join(items)}]"
    path = _path(expression)
    return f"$({path})" if path else None


def _requirement(expression: nodes.CondExpr) -> str | None:
    """A requirement of a selector that is there only under a condition."""
    tests = _tests(expression.test)
    if tests is None or not isinstance(expression.expr1, nodes.Dict):
        return None
    parts = []
    for pair in expression.expr1.items:
        key, values = getattr(pair.key, "value", None), _items(pair.value)
        if values is None or not isinstance(key, str):
            return None
        is_list = isinstance(pair.value, nodes.List) or key == "values"
        parts.append(f"{key}: [{', '.join(values)}]" if is_list else f"{key}: {values[0]}")
    return f"{{{', '.join([*parts, tests])}}}"


def _items(expression: nodes.Node) -> list[str] | None:
    """The items of a list in YAML, each a value or a reference; None for other expressions."""
    match expression:
        case nodes.Add():
            parts = [_items(expression.left), _items(expression.right)]
        case nodes.List():
            parts = [_items(item) for item in expression.items]
        case nodes.Const():
            return [_text(expression.value)]
        case _:
            path = _path(expression)
            return [f"$({path})"] if path else None
    return None if None in parts else [item for part in parts for item in part or ()]


def _tests_of(value: yaml.Node) -> str | None:
    expression = _expression(value.value) if isinstance(value, yaml.ScalarNode) else None
    return None if expression is None else _tests(expression)


def _tests(expression: nodes.Node) -> str | None:
    """`when: ...` or `unless: ...`; None for what neither can say."""
    word = "when"
    while isinstance(expression, nodes.Not):
        word = "unless" if word == "when" else "when"
        expression = expression.node
    if isinstance(expression, nodes.Compare) and len(expression.ops) == 1:
        path, operand = _path(expression.expr), expression.ops[0]
        if (
            path is None
            or operand.op not in ("eq", "ne")
            or not isinstance(operand.expr, nodes.Const)
        ):
            return None
        if operand.op == "ne":
            word = "unless" if word == "when" else "when"
        return f"{word}: {{{path}: {_text(operand.expr.value)}}}"
    path = _path(expression)
    return f"{word}: {path}" if path else None


def _path(expression: nodes.Node) -> str | None:
    """The path of an expression that only names a value."""
    match expression:
        case nodes.Name(name="settings" | "parameters"):
            return str(expression.name)
        case nodes.Getattr():
            prefix = _path(expression.node)
            return f"{prefix}.{expression.attr}" if prefix else None
        case nodes.Getitem(arg=nodes.Const(value=str())):
            prefix = _path(expression.node)
            return f"{prefix}.{expression.arg.value}" if prefix else None  # type: ignore[attr-defined]
        case nodes.Call(node=nodes.Getattr(attr="values"), args=[]):
            prefix = _path(expression.node.node)  # type: ignore[attr-defined]
            return f"{prefix}.*" if prefix else None
        case nodes.Filter(name="list" | "keys") if expression.node:
            return _path(expression.node)
        # All values of a key but those that are none: a path with `*` leaves these out.
        case nodes.Filter(
            name="rejectattr", args=[nodes.Const(value=str()), nodes.Const(value="none")]
        ) if expression.node:
            prefix = _path(expression.node)
            return f"{prefix}.{expression.args[0].value}" if prefix else None  # type: ignore[attr-defined]
    return None


def _expression(text: str) -> nodes.Node | None:
    """The expression that a text consists of."""
    body = _parsed(text.strip())
    match body:
        case [nodes.Output(nodes=[expression])] if not isinstance(expression, nodes.TemplateData):
            return expression
    return None


def _parsed(text: str) -> list[nodes.Node]:
    try:
        return Environment(autoescape=False).parse(text).body  # noqa: S701 - nothing is rendered
    except TemplateError:
        return []


def _alternatives(value: yaml.Node, facts: str) -> list[tuple[str, str | None]] | None:
    """The parts of an expression in CEL that `{% if %}` divides, joined by `||`: each with its
    `when` or `unless`. None if it has no `if`, or another form.
    """
    if not isinstance(value, yaml.ScalarNode) or "{%" not in value.value:
        return None
    text = value.value
    if value.style == ">":  # with the line breaks of its author
        _, lines = facts[value.start_mark.index : value.end_mark.index].split("\n", 1)
        text = textwrap.dedent(lines)
    parts: list[tuple[str, str | None]] = []
    for node in _parsed(text):
        match node:
            case nodes.Output(nodes=[nodes.TemplateData(data=data)]):
                parts.append((data, None))
            case nodes.If(
                elif_=[], else_=[], body=[nodes.Output(nodes=[nodes.TemplateData(data=data)])]
            ):
                tests = _tests(node.test)
                if tests is None or not data.strip().startswith("||"):
                    return None
                parts.append((data, tests))
            case _:
                return None
    stripped = [
        (re.sub(r"^\s*\|\|\s*|\s*\|\|\s*$", "", part).strip(), tests) for part, tests in parts
    ]
    return [part for part in stripped if part[0]] if _balanced(stripped) else None


def _balanced(parts: Iterable[tuple[str, object]]) -> bool:
    return all(part.count("(") == part.count(")") for part, _ in parts)


def _any_of(parts: Iterable[tuple[str, str | None]], indent: str) -> str:
    """`anyOf` with its items, as a block that begins at a column."""
    lines = ["anyOf:"]
    for text, tests in parts:
        if tests:
            lines += [f"{indent}  - {tests}", f"{indent}    expression: >-"]
        else:
            lines.append(f"{indent}  - >-")
        deeper = "      " if tests else "    "
        lines += [f"{indent}{deeper}{line.strip()}" for line in text.splitlines()]
    return "\n".join(lines)


def _text(value: object) -> str:
    """A value in YAML, with quotes only where they are needed."""
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][-\w]*", value):
        return value if files.yaml_value(value) == value else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)

"""Makes the page of a policy, README.md in its folder, from its facts and its cases. It is
for people: bundles leave it out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import yaml

from fairlead.common import paths
from fairlead.policy import cases
from fairlead.policy.cases import Case
from fairlead.policy.intents import Intent
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings
from fairlead.settings.selectors import Expression

FILE = "README.md"
_BEGIN = "<!-- Made by `fairlead generate`"
_MARK = (
    f"{_BEGIN} from intent.yaml, METADATA and cases: change these instead. Remove this line to "
    "make the file yours. -->"
)


class _Parameter(NamedTuple):
    """A parameter's row. `name` is a path for a property of an object, or of a list's items."""

    name: str
    type: str
    default: Any
    description: str


def text(intent: Intent, policies: PolicySet) -> str:
    """The page of a policy. Its cases may name the intents of these policies; everything else in it
    is by the default settings, and by parameters that are examples. Raises InputError.
    """
    parameters = intent.example()
    all_cases = (
        case
        for path in cases.of_policy(intent.module.parent)
        for case in cases.load(path, policies)
    )
    examples = [case for case in all_cases if case.intent == intent.name]
    examples.sort(key=lambda case: bool(case.given))  # those with the default settings first
    page = _template().render(
        mark=_MARK,
        intent=intent,
        requests=intent.requests(Settings().document(), parameters),
        parameters=list(_parameters(intent.facts.parameters)),
        chosen={"intents": {intent.name: {"parameters": parameters}}},
        refused=[case for case in examples if not case.expect.allowed],
        admitted=[case for case in examples if case.expect.allowed],
    )
    return page.rstrip() + "\n"


def is_made(path: Path) -> bool:
    """Whether the page is made here, or may be: its user wrote no other one."""
    return not path.exists() or path.read_text(encoding="utf-8").startswith(_BEGIN)


def _parameters(schema: Mapping[str, Any], prefix: str = "") -> Iterator[_Parameter]:
    """The properties of a schema, those of objects after the object."""
    for name, of in schema.get("properties", {}).items():
        property_ = of if isinstance(of, dict) else {}
        description = str(property_.get("description", ""))
        yield _Parameter(f"{prefix}{name}", _type(property_), property_.get("default"), description)
        yield from _parameters(property_, f"{prefix}{name}.")
        items = property_.get("items")
        if isinstance(items, dict):
            yield from _parameters(items, f"{prefix}{name}[].")


def _type(schema: Mapping[str, Any]) -> str:
    """A property's type, in words."""
    if "enum" in schema:
        return " or ".join(map(_code, schema["enum"]))
    types = schema.get("type", "any")
    words = " or ".join(types) if isinstance(types, list) else str(types)
    items = schema.get("items")
    return f"{words} of {_type(items)}" if types == "array" and isinstance(items, dict) else words


def _kinds(request: Request) -> str:
    return ", ".join(
        _code("/".join(filter(None, (kind.group, kind.resources)))) for kind in request.kinds
    )


def _namespaces(request: Request) -> str:
    return " and ".join(map(_requirement, request.namespaces.expressions)) or "all"


def _requirement(expression: Expression) -> str:
    """A requirement of a label selector, in words."""
    values = " or ".join(_code(value) if value else "empty" for value in expression.values)
    words = {
        "In": f"is {values}",
        "NotIn": f"is not {values}",
        "Exists": "is set",
        "DoesNotExist": "is not set",
    }
    return f"{_code(expression.key)} {words[expression.operator]}"


def _request(case: Case) -> str:
    kind = case.request.manifest["kind"]
    sub_resource = f"/{case.request.sub_resource}" if case.request.sub_resource else ""
    return f"{case.request.operation} {kind}{sub_resource}"


def _namespace(case: Case) -> str:
    """The labels of the request's namespace, and whether OPA knows it."""
    if case.namespace is None:
        return ""
    labels = ", ".join(_code(f"{key}={value}") for key, value in case.namespace.labels.items())
    states = {"known": "", "new": ", not yet known to OPA", "absent": ", which does not exist"}
    return (labels or "no labels") + states[case.namespace.state]


def _settings(case: Case) -> str:
    """The settings that the case changes, without the values of those that are mappings."""
    return ", ".join(
        _code(key if isinstance(value, dict) else f"{key}: {_plain(value)}")
        for key, value in case.given.items()
    )


def _code(value: object) -> str:
    """A value as code in a table's cell; nothing for None."""
    if value is None:
        return ""
    text = _one_line(_plain(value))
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cell(value: str) -> str:
    """Text in a table's cell."""
    return _one_line(value).replace("<", "&lt;")


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _one_line(value: str) -> str:
    return " ".join(value.split()).replace("|", "\\|")


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip()


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.root() / "tools" / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - no HTML
    )
    environment.filters |= {
        "cell": _cell,
        "code": _code,
        "kinds": _kinds,
        "namespace": _namespace,
        "namespaces": _namespaces,
        "request": _request,
        "settings": _settings,
        "yaml": _yaml,
    }
    return environment.get_template("page.md.j2")

"""Reads intents as earlier versions wrote them: as YAML with Jinja2 expressions, under `custom` in
the METADATA of the Rego.

A cluster, or its history, may still have such policies: `intent`. `converted` moves what a file
says into an intent.yaml, for `fairlead new intent-file`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import TemplateError
from pydantic import ValidationError

from fairlead.common import mistakes, yaml_files
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
        document=yaml_files.Document(Path(source), custom, None),
        written=tuple(custom["requests"]),
    )


_ANY = {"kinds": ["v1/Pod"], "operations": ["CREATE"]}


def converted(module: Path, schema: str | None) -> dict[Path, str] | None:
    """The text of intent.yaml, and that of the Rego without what moved there; None if its METADATA
    have no requests. `schema` is where the JSON schema is, seen from there.

    Comments stay. Expressions that do more than to name a value stay, too; reading the file names
    them.
    Raises InputError if there is an intent.yaml already.
    """
    text = yaml_files.read_text(module)
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
        path: head + _with_references(facts),
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


def _with_references(facts: str) -> str:
    """intent.yaml with references in place of the expressions that only name a setting or a
    parameter.
    """
    for pattern, reference in _REFERENCES:
        facts = re.sub(pattern, reference, facts)
    return facts


_NAMED = r"\{\{\s*((?:settings|parameters)(?:\.\w+)+)\s*\}\}"
_REFERENCES = (
    (rf"\bwhen: *(['\"]){_NAMED}\1", r"when: \2"),
    (rf"\b(kinds|values): *(['\"]){_NAMED}\2", r"\1: [$(\3)]"),
    (rf"(['\"]?){_NAMED}\1", r"$(\2)"),
)
"""Where such an expression stands, and what says the same there."""

"""The files that are made from the METADATA of the project's policies."""

from __future__ import annotations

import re
from pathlib import Path

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.policy import bundles, tables
from fairlead.policy.tables import Active
from fairlead.settings.intents import Expression
from fairlead.settings.models import Settings

_BEGIN, _END = "<!-- made by `make generate` -->", "<!-- end -->"


def texts() -> dict[Path, str]:
    """The files and what they should hold: the table of the intents, the bundle's manifest, the
    defaults of the parameters, and the list of intents in docs/policies.md. Raises InputError.
    """
    settings, folder = Settings(), bundles.folder()
    bundle = bundles.bundle(settings)
    modules = [path for path in sorted(folder.rglob("*.rego")) if path.name != tables.INTENTS]
    table = bundle.modules[tables.INTENTS]
    page = paths.root() / "docs" / "policies.md"
    return {
        folder / tables.INTENTS: table,
        folder / ".manifest": tables.manifest([table, *map(files.read_text, modules)]),
        folder / bundles.SETTINGS: bundle.modules[bundles.SETTINGS],
        page: _documented(page, bundle.active(settings)),
    }


def outdated() -> list[Path]:
    """The files that hold something else."""
    return [
        path
        for path, text in texts().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def _documented(page: Path, active: list[Active]) -> str:
    """The page with a section for each intent between the marks. Raises InputError."""
    text = files.read_text(page)
    if not re.search(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", text, re.DOTALL):
        raise InputError(page, f"lacks the lines {_BEGIN} and {_END}: put them back")
    before, _, rest = text.partition(_BEGIN)
    sections = "\n".join(_section(one) for one in active)
    return f"{before}{_BEGIN}\n\n{sections}\n{_END}{rest.partition(_END)[2]}"


def _required(expression: Expression) -> str:
    """A requirement of a label selector, in words."""
    values = " or ".join(f"`{value}`" if value else "empty" for value in expression.values)
    words = {
        "In": f"is {values}",
        "NotIn": f"is not {values}",
        "Exists": "is set",
        "DoesNotExist": "is not set",
    }
    return f"`{expression.key}` {words[expression.operator]}"


def _section(one: Active) -> str:
    """What the METADATA say about an intent, with the default settings."""
    lines = [f"### {one.intent.name}", "", f"{one.intent.title}. {one.intent.description}", ""]
    lines += ["| requests | kinds | operations | namespaces | asked by |", "|---|---|---|---|---|"]
    for request in one.requests:
        cells = [
            request.name or one.intent.name,
            ", ".join(f"`{'/'.join(filter(None, (k.group, k.resources)))}`" for k in request.kinds),
            ", ".join(request.operations),
            " and ".join(map(_required, request.namespaces.expressions)) or "all",
            " and ".join(request.webhooks) + " webhook",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    properties = one.intent.metadata.parameters.get("properties", {})
    if properties:
        lines += ["", "| parameter | default | |", "|---|---|---|"]
        lines += [
            f"| `{name}` | `{schema.get('default', 'none')}` | {schema.get('description', '')} |"
            for name, schema in properties.items()
        ]
    return "\n".join(lines) + "\n"

"""The files that are made from all of the project's own policies: the table of the intents, the
bundle's manifest, the defaults of the parameters, and the list in docs/policies.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.policy import bundles, pages, tables
from fairlead.policy.intents import Intent
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import PACKAGE
from fairlead.settings.models import Settings

_BEGIN, _END = "<!-- made by `make generate` -->", "<!-- end -->"


def texts() -> dict[Path, str]:
    """The files, and what they should hold. Raises InputError."""
    policies = PolicySet.load(Settings())
    (folder,) = policies.files.folders
    modules = [text for path, text in folder.modules.items() if path.name != tables.INTENTS]
    table = policies.modules[tables.INTENTS]
    page = paths.root() / "docs" / "policies.md"
    return {
        folder.path / tables.INTENTS: table,
        folder.path / ".manifest": _manifest([table, *modules]),
        folder.path / bundles.SETTINGS: policies.modules[bundles.SETTINGS],
        page: _listed(page, folder.intents),
    }


def _manifest(modules: Iterable[str]) -> str:
    """The text of `.manifest` for modules, tests among them: the roots are their packages."""
    roots = {match[1].split(".")[0] for text in modules if (match := PACKAGE.search(text))}
    return json.dumps({"roots": sorted(roots), "rego_version": 1}, indent=2) + "\n"


def _listed(page: Path, intents: Iterable[Intent]) -> str:
    """The page with a section for each intent between the marks. Raises InputError."""
    text = yaml_files.read_text(page)
    if not re.search(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", text, re.DOTALL):
        raise InputError(page, f"lacks the lines {_BEGIN} and {_END}: put them back")
    before, _, after = text.partition(_BEGIN)
    sections = "\n".join(
        f"### [{intent.name}](../policies/{intent.package}/{pages.FILE})\n\n"
        f"{intent.title}. {intent.description}\n"
        for intent in intents
    )
    return f"{before}{_BEGIN}\n\n{sections}\n{_END}{after.partition(_END)[2]}"

"""The files that are made from the facts and the cases of policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.policy import bundles, intent_file, intents, pages, tables
from fairlead.policy.intents import Intent
from fairlead.settings.models import Settings

_BEGIN, _END = "<!-- made by `make generate` -->", "<!-- end -->"


def texts(folders: Iterable[Path], settings: Settings) -> dict[Path, str]:
    """The files of these folders of policies, and what they should hold. Cases may name the
    policies of the settings, too. Raises InputError.
    """
    pages: dict[Path, str] = {}
    for folder in folders:
        schema = intent_file.schema_path(folder)
        pages |= {schema: intent_file.json_schema()} if schema.is_file() else {}
        if folder.resolve() == bundles.folder().resolve():
            pages |= _of_project()
        else:
            pages |= _pages(folder, settings)
    return pages


def _of_project() -> dict[Path, str]:
    """The table of the intents, the bundle's manifest, the defaults of the parameters, the pages of
    the policies, and the list of these in docs/policies.md.
    """
    settings, folder = Settings(), bundles.folder()
    bundle = bundles.bundle(settings)
    modules = [path for path in sorted(folder.rglob("*.rego")) if path.name != tables.INTENTS]
    table = bundle.modules[tables.INTENTS]
    list_page = paths.root() / "docs" / "policies.md"
    return {
        folder / tables.INTENTS: table,
        folder / ".manifest": tables.manifest([table, *map(files.read_text, modules)]),
        folder / bundles.SETTINGS: bundle.modules[bundles.SETTINGS],
        list_page: _listed(list_page, intents.in_folder(folder)),
        **_pages(folder, settings),
    }


def _pages(folder: Path, settings: Settings) -> dict[Path, str]:
    """The pages of a folder of policies, without those that a user wrote."""
    policies = [*settings.policies, str(folder.resolve())]
    settings = settings.model_copy(update={"policies": policies})
    return {
        page: pages.text(intent, settings)
        for intent in intents.in_folder(folder)
        if pages.is_made(page := folder / intent.package / pages.FILE)
    }


def outdated(texts: Mapping[Path, str]) -> dict[Path, str]:
    """Those of the files that hold something else."""
    return {
        path: text
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def _listed(page: Path, intents: Iterable[Intent]) -> str:
    """The page with a section for each intent between the marks. Raises InputError."""
    text = files.read_text(page)
    if not re.search(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", text, re.DOTALL):
        raise InputError(page, f"lacks the lines {_BEGIN} and {_END}: put them back")
    before, _, after = text.partition(_BEGIN)
    sections = "\n".join(
        f"### [{intent.name}](../policies/{intent.package}/{pages.FILE})\n\n"
        f"{intent.title}. {intent.description}\n"
        for intent in intents
    )
    return f"{before}{_BEGIN}\n\n{sections}\n{_END}{after.partition(_END)[2]}"

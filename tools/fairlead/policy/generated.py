"""The files that are made from the facts and the cases of policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from fairlead.common import files, paths
from fairlead.common.errors import InputError
from fairlead.policy import bundles, intent_file, pages, policy_files, tables
from fairlead.policy.intents import Intent
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_BEGIN, _END = "<!-- made by `make generate` -->", "<!-- end -->"


def texts(policies: PolicySet, folders: Iterable[Path]) -> dict[Path, str]:
    """The files of these folders, which are among those of the policies, and what they should hold.
    Cases may name all of the policies. Raises InputError.
    """
    texts_by_path: dict[Path, str] = {}
    for folder in folders:
        schema = intent_file.schema_path(folder)
        texts_by_path |= {schema: intent_file.json_schema()} if schema.is_file() else {}
        if folder.resolve() == policy_files.builtin().resolve():
            texts_by_path |= _of_project(policies.under(Settings()))
        else:
            texts_by_path |= _pages(folder, policies)
    return texts_by_path


def _of_project(policies: PolicySet) -> dict[Path, str]:
    """The table of the intents, the bundle's manifest, the defaults of the parameters, the pages of
    the policies, and the list of these in docs/policies.md.
    """
    (folder,) = policies.files.folders
    modules = [text for path, text in folder.modules.items() if path.name != tables.INTENTS]
    table = policies.modules[tables.INTENTS]
    list_page = paths.root() / "docs" / "policies.md"
    return {
        folder.path / tables.INTENTS: table,
        folder.path / ".manifest": tables.manifest([table, *modules]),
        folder.path / bundles.SETTINGS: policies.modules[bundles.SETTINGS],
        list_page: _listed(list_page, folder.intents),
        **_pages(folder.path, policies),
    }


def _pages(folder: Path, policies: PolicySet) -> dict[Path, str]:
    """The pages of a folder of policies, without those that a user wrote."""
    return {
        page: pages.text(intent, policies)
        for each in policies.files.folders
        if each.path == folder.resolve()
        for intent in each.intents
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

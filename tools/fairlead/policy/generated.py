"""The files that are made from the facts and the cases of policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from fairlead.policy import intent_file, pages
from fairlead.policy.policy_set import PolicySet


def texts(policies: PolicySet, folders: Iterable[Path]) -> dict[Path, str]:
    """The files of these folders, which are among those of the policies, and what they should hold:
    the schema of intent.yaml, and the pages but for those that a user wrote. Cases may name all of
    the policies. Raises InputError.
    """
    texts_by_path: dict[Path, str] = {}
    for folder in folders:
        schema = intent_file.schema_path(folder)
        texts_by_path |= {schema: intent_file.json_schema()} if schema.is_file() else {}
        (of_folder,) = (each for each in policies.files.folders if each.path == folder.resolve())
        texts_by_path |= {
            page: pages.text(intent, policies)
            for intent in of_folder.intents
            if pages.is_made(page := folder / intent.package / pages.FILE)
        }
    return texts_by_path


def outdated(texts: Mapping[Path, str]) -> dict[Path, str]:
    """Those of the files that hold something else."""
    return {
        path: text
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }

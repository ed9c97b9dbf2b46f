"""Writes a new policy, and a new repository of policies. A policy is one folder: its modules, their
tests, its cases and its page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import jinja2

from fairlead import __version__
from fairlead.common import atomic_files, paths
from fairlead.common.errors import UsageError
from fairlead.policy import intent_file, intents, old_metadata, pages, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_POLICY, _REPOSITORY = "policy", "repository"
"""The folders of tools/templates."""


def policy(intent: str, folder: Path) -> list[Path]:
    """Write the policy `intent` into a folder of policies, and return the files.

    Its package is the name with underscores. Raises UsageError, and then writes nothing, if the
    name is not legal or is taken, there or in the project.
    """
    texts = {**_policy(intent, folder), **_schema(folder)}
    atomic_files.write_all(texts)
    return [*texts, _page(intent, folder)]


def repository(root: Path, intent: str) -> list[Path]:
    """Write a repository with settings, the policy `intent`, a workflow for CI and a README, and
    return the files. Raises UsageError, and then writes nothing, if one of them is there already.
    """
    folder = root / "policies"
    texts = {**_rendered(_REPOSITORY, root, intent), **_policy(intent, folder), **_schema(folder)}
    for path in texts:
        if path.exists():
            raise UsageError(f"{path} is there already: choose another folder, or remove it")
    atomic_files.write_all(texts)
    return [*texts, _page(intent, folder)]


def intent_files(folder: Path) -> list[Path]:
    """Move what the METADATA of a policy say of its intent, or of all policies of a folder, into an
    intent.yaml beside the Rego, and return the files. Raises UsageError if there is nothing to
    move, and InputError; nothing was written then.
    """
    root = folder.resolve()
    places = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    texts: dict[Path, str] = {}
    for policy in places:
        module = policy / f"{policy.name}.rego"
        moved = (
            old_metadata.converted(module, _schema_from(policy.parent))
            if module.is_file()
            else None
        )
        if moved:
            texts |= {**moved, **_schema(policy.parent)}
    if not texts:
        raise UsageError(f"{folder}: no policy there has custom.requests in its METADATA")
    atomic_files.write_all(texts)
    return [*texts]


def _schema(folder: Path) -> dict[Path, str]:
    """The JSON schema of intent.yaml, for editors."""
    return {intent_file.schema_path(folder): intent_file.json_schema()}


def _schema_from(folder: Path) -> str:
    """Where that is, seen from the folder of a policy."""
    return os.path.relpath(intent_file.schema_path(folder), folder / "policy")


def _policy(intent: str, folder: Path) -> dict[Path, str]:
    if not _NAME.fullmatch(intent):
        raise UsageError(
            f"{intent!r} cannot name a policy: use lower-case words joined by '-', such as "
            "replica-limits"
        )
    package = intent.replace("-", "_")
    if problem := intents.name_problem(package):
        raise UsageError(problem)
    for parent in (folder, policy_files.builtin()):
        if (parent / package).exists():
            raise UsageError(f"{parent / package} is there already: choose another name")
    return _rendered(_POLICY, folder, intent)


def _page(name: str, folder: Path) -> Path:
    """Write the page of the policy that was just written."""
    package = name.replace("-", "_")
    intent = intents.of_folder(folder / package)
    assert intent is not None  # noqa: S101 - the template has an intent.yaml
    page = folder / package / pages.FILE
    policies = PolicySet.examples(Settings(), None if folder == policy_files.builtin() else folder)
    atomic_files.write_all({page: pages.text(intent, policies)})
    return page


def _rendered(template: str, folder: Path, intent: str) -> dict[Path, str]:
    """The files of a template. Their names may hold `PACKAGE`, and `dot-` begins hidden ones."""
    templates = paths.root() / "tools" / "templates" / template
    names: Mapping[str, str] = {
        "intent": intent,
        "package": intent.replace("-", "_"),
        "title": intent.replace("-", " ").capitalize(),
        "schema": _schema_from(folder),
        "version": _version(),
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
        autoescape=False,  # noqa: S701 - no HTML
    )
    return {
        folder / _path(name, names["package"]): environment.get_template(name).render(names)
        for name in sorted(environment.list_templates())
    }


def _version() -> str:
    """What a checkout of this Fairlead is named by: its commit; without a checkout, the tag."""
    if not (paths.root() / ".git").exists() or not shutil.which("git"):
        return f"v{__version__}"
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's git
        cwd=paths.root(),
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() or f"v{__version__}"


def _path(template: str, package: str) -> str:
    parts = template.removesuffix(".j2").replace("PACKAGE", package).split("/")
    return "/".join(re.sub(r"^dot-", ".", part) for part in parts)

"""Writes a new policy, and a new repository of policies. A policy is one folder: its modules, their
tests, its cases and its page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import jinja2

from fairlead.common import atomic_files, files, paths
from fairlead.common.errors import UsageError
from fairlead.policy import bundles, pages
from fairlead.settings import intents
from fairlead.settings.models import Settings

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_POLICY, _REPOSITORY = "policy", "repository"
"""The folders of tools/templates."""


def policy(intent: str, folder: Path) -> list[Path]:
    """Write the policy `intent` into a folder of policies, and return the files.

    Its package is the name with underscores. Raises UsageError, and then writes nothing, if the
    name is not legal or is taken, there or in the project.
    """
    texts = _policy(intent, folder)
    atomic_files.write_all(texts)
    return [*texts, _page(intent, folder)]


def repository(root: Path, intent: str) -> list[Path]:
    """Write a repository with settings, the policy `intent`, a workflow for CI and a README, and
    return the files. Raises UsageError, and then writes nothing, if one of them is there already.
    """
    texts = _rendered(_REPOSITORY, root, intent) | _policy(intent, root / "policies")
    for path in texts:
        if path.exists():
            raise UsageError(f"{path} is there already: choose another folder, or remove it")
    atomic_files.write_all(texts)
    return [*texts, _page(intent, root / "policies")]


def _policy(intent: str, folder: Path) -> dict[Path, str]:
    if not _NAME.fullmatch(intent):
        raise UsageError(
            f"{intent!r} cannot name a policy: use lower-case words joined by '-', such as "
            "replica-limits"
        )
    package = intent.replace("-", "_")
    if problem := intents.name_problem(package):
        raise UsageError(problem)
    for place in (folder, bundles.folder()):
        if (place / package).exists():
            raise UsageError(f"{place / package} is there already: choose another name")
    return _rendered(_POLICY, folder, intent)


def _page(name: str, folder: Path) -> Path:
    """Write the page of the policy that was just written."""
    package = name.replace("-", "_")
    module = folder / package / f"{package}.rego"
    intent = intents.of_module(files.read_text(module), str(module))
    assert intent is not None  # noqa: S101 - the template has METADATA
    page = module.with_name(pages.FILE)
    atomic_files.write_all({page: pages.text(intent, Settings())})
    return page


def _rendered(template: str, folder: Path, intent: str) -> dict[Path, str]:
    """The files of a template. Their names may hold `PACKAGE`, and `dot-` begins hidden ones."""
    place = paths.root() / "tools" / "templates" / template
    names: Mapping[str, str] = {
        "intent": intent,
        "package": intent.replace("-", "_"),
        "title": intent.replace("-", " ").capitalize(),
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(place),
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


def _path(template: str, package: str) -> str:
    parts = template.removesuffix(".j2").replace("PACKAGE", package).split("/")
    return "/".join(re.sub(r"^dot-", ".", part) for part in parts)

"""Collects the modules of the policies, and writes the settings into settings.rego."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairlead.common import files, paths
from fairlead.common.errors import InputError, UsageError
from fairlead.policy.revision import MAIN
from fairlead.policy.revision import revision as revision
from fairlead.settings.models import Settings

SETTINGS = "settings.rego"
AUTHZ = "authz.rego"
LOG = "log.rego"
FILE_MODULES = (AUTHZ, LOG)
"""The modules that protect OPA itself, which it reads from files: no API call can replace them."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,200}")


@dataclass(frozen=True)
class Bundle:
    """The modules for OPA, by their ConfigMap keys, which have no slash: `node_pool.x.rego`."""

    modules: Mapping[str, str]
    sources: Mapping[str, Path] = field(default_factory=dict)
    """The file of each module, for messages; empty if the modules do not come from files."""

    @property
    def revision(self) -> str:
        """12 hex digits that identify this bundle."""
        return revision(self.modules)


def folder() -> Path:
    """The folder of the project's own policies."""
    return paths.root() / "policies"


def bundle(settings: Settings, source: Path | None = None) -> Bundle:
    """The modules of the folder `source` (the project's own by default), with `settings` in
    settings.rego.

    Tests are left out, and so are FILE_MODULES, which OPA reads from a Secret. Raises InputError if
    a module cannot be read, and UsageError if there is no main.rego.
    """
    source = source or folder()
    data = sorted(path for path in source.rglob("*") if path.suffix in (".json", ".yaml", ".yml"))
    if data:
        raise InputError(
            data[0], "no deployment takes data from here: put it into a ConfigMap, labelled as data"
        )
    for name in FILE_MODULES:
        module = source / name
        if module.exists() and module.read_bytes() != (folder() / name).read_bytes():
            raise InputError(
                module,
                f"differs from {folder() / name}, which protects OPA: change it there, then deploy",
            )
    modules: dict[str, str] = {}
    sources: dict[str, Path] = {}
    for path in sorted(source.rglob("*.rego")):
        if path.name.endswith("_test.rego") or path in [source / name for name in FILE_MODULES]:
            continue
        text = files.read_text(path)
        key = ".".join(path.relative_to(source).parts)
        if not _KEY.fullmatch(key) or key in modules:
            raise InputError(
                path, f"would be the ConfigMap key {key!r}, which is illegal or taken: rename it"
            )
        modules[key] = _with_settings(text, settings, path) if path == source / SETTINGS else text
        sources[key] = path
    if MAIN not in modules:
        raise UsageError(f"{source}: holds no main.rego, so nothing would decide")
    return Bundle(modules, sources)


def settings_document(settings: Settings) -> dict[str, Any]:
    """`data.settings`, which the policies read."""
    pools = {
        name: settings.assignment(name).model_dump(by_alias=True, exclude_none=True)
        for name in settings.pools
    }
    return {
        "namespace_label": settings.namespace_label,
        "node_label": settings.node_label,
        "pod_selector": settings.pod_selector,
        "enforcement": {
            intent: mode for intent, mode in settings.enforcement.items() if mode != "deny"
        },
        "default_pool": settings.default_pool or "",
        "pools": pools,
        "contact": settings.contact or "",
    }


def file_modules(tokens: list[str]) -> dict[str, str]:
    """The modules that OPA reads from files, name -> text; `tokens` are those in force."""
    return {AUTHZ: authz_module(tokens), LOG: files.read_text(folder() / LOG)}


def authz_module(tokens: list[str]) -> str:
    """authz.rego with the SHA-256 digests of the tokens in force, but not the tokens."""
    digests = json.dumps(sorted(hashlib.sha256(token.encode()).hexdigest() for token in tokens))
    text = files.read_text(folder() / AUTHZ)
    return f"{text}\ntoken_digests := {{{digests[1:-1]}}}\n"


def _with_settings(text: str, settings: Settings, path: Path) -> str:
    """settings.rego with each value replaced. The file is its own template, so that its defaults
    can be tested.
    """
    for name, value in settings_document(settings).items():
        matches = list(re.finditer(rf"^{name} := .*$", text, flags=re.MULTILINE))
        if len(matches) != 1:
            raise InputError(
                path,
                f"has {len(matches)} lines `{name} := ...`, where deployment writes the setting: "
                "keep one",
            )
        before, after = text[: matches[0].start()], text[matches[0].end() :]
        text = f"{before}{name} := {json.dumps(value, sort_keys=True)}{after}"
    return text

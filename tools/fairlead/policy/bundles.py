"""Collects the policies as they are deployed: their modules, with the settings written into them,
and their revision."""

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
GUARDS = (AUTHZ, LOG)
"""What guards OPA, from inside and out: OPA reads them from files, and no API call can replace
them."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,200}")


@dataclass(frozen=True)
class Bundle:
    """The modules that OPA is given, by their ConfigMap key: no slash, so `node_pool/x.rego` is
    `node_pool.x.rego`.
    """

    modules: Mapping[str, str]
    sources: Mapping[str, Path] = field(default_factory=dict)
    """The file of each module, for messages; empty where the modules come from elsewhere."""

    @property
    def revision(self) -> str:
        """What tells this bundle from any other."""
        return revision(self.modules)


def folder() -> Path:
    """Where the policies are."""
    return paths.root() / "policies"


def bundle(settings: Settings, source: Path | None = None) -> Bundle:
    """All modules of the folder `source` (the project's own by default), with `settings` written
    into settings.rego.

    Left out are tests, and GUARDS, which OPA reads from a Secret. Raises InputError where a module
    cannot be read, UsageError where there is none.
    """
    source = source or folder()
    data = sorted(path for path in source.rglob("*") if path.suffix in (".json", ".yaml", ".yml"))
    if data:
        raise InputError(
            data[0], "no deployment takes data from here: put it into a ConfigMap, labelled as data"
        )
    for name in GUARDS:
        guard = source / name
        if guard.exists() and guard.read_bytes() != (folder() / name).read_bytes():
            raise InputError(
                guard,
                f"differs from {folder() / name}, which guards OPA: change it there, then deploy",
            )
    modules: dict[str, str] = {}
    sources: dict[str, Path] = {}
    for path in sorted(source.rglob("*.rego")):
        if path.name.endswith("_test.rego") or path in [source / name for name in GUARDS]:
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
    """`data.settings` as policies read it."""
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


def guards(tokens: list[str]) -> dict[str, str]:
    """The modules that OPA reads from files, name -> text, with these tokens in force."""
    return {AUTHZ: authz_module(tokens), LOG: files.read_text(folder() / LOG)}


def authz_module(tokens: list[str]) -> str:
    """authz.rego with the SHA-256 digests of the tokens in force; the tokens themselves are not
    in it.
    """
    digests = json.dumps(sorted(hashlib.sha256(token.encode()).hexdigest() for token in tokens))
    text = files.read_text(folder() / AUTHZ)
    return f"{text}\ntoken_digests := {{{digests[1:-1]}}}\n"


def _with_settings(text: str, settings: Settings, path: Path) -> str:
    """settings.rego with each value replaced: the file is its own template, so its defaults can
    be read and tested.
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

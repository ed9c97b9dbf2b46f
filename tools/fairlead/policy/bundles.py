"""The modules of policies for OPA, and those of them that a deployment writes: the settings, and
what protects OPA itself."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.policy.instances import Instance
from fairlead.policy.policy_files import AUTHZ, builtin
from fairlead.policy.revision import revision as revision
from fairlead.settings.models import Settings
from fairlead.settings.services import SCOPES

SETTINGS = "settings.rego"

ScopedTokens = Mapping[str, Sequence[str]]
"""The valid tokens of each scope, by its name; the one to use comes first."""
NO_SCOPES: ScopedTokens = MappingProxyType({})
_UNTYPED = ("parameters", "instances")
"""The settings of which a policy may read a key that is missing. OPA rejects a reference to a key
that a constant lacks, but does not look into what a function returns."""


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


def modules_of(data: Mapping[str, str]) -> dict[str, str]:
    """The modules in the data of a ConfigMap of policies, which may hold more than modules."""
    return {key: text for key, text in data.items() if key.endswith(".rego")}


def settings_document(settings: Settings, active: Sequence[Instance]) -> dict[str, Any]:
    """`data.settings`, which the policies read, with these intents in force."""
    pools = {
        name: settings.assignment(name).model_dump(by_alias=True, exclude_none=True)
        for name in settings.pools
    }
    return {
        "namespace_label": settings.namespace_label,
        "node_label": settings.node_label,
        "pod_selector": settings.pod_selector,
        "enforcement": {
            instance.name: mode
            for instance in active
            if (mode := settings.mode(instance.name)) != "deny"
        },
        "parameters": {
            instance.intent.package: dict(instance.parameters)
            for instance in active
            if instance.has_intents_name
        },
        "instances": {
            instance.name: {instance.intent.package: dict(instance.parameters)}
            for instance in active
            if not instance.has_intents_name
        },
        "exempt": {
            instance.name: {"users": instance.exempt.users, "groups": instance.exempt.groups}
            for instance in active
            if instance.exempt.users or instance.exempt.groups
        },
        "default_pool": settings.default_pool or "",
        "pools": pools,
        "contact": settings.contact or "",
    }


def file_modules(tokens: list[str], scoped: ScopedTokens = NO_SCOPES) -> dict[str, str]:
    """The modules that OPA reads from files, name -> text; see `authz_module`."""
    return {AUTHZ: authz_module(tokens, scoped)}


def authz_module(tokens: list[str], scoped: ScopedTokens = NO_SCOPES) -> str:
    """authz.rego with the SHA-256 digests of the tokens in force, but not the tokens. `tokens` open
    everything, those of a scope (see fairlead.settings.services) its requests.
    """
    digests = json.dumps(sorted(map(_sha256, tokens)))
    text = f"{yaml_files.read_text(builtin() / AUTHZ)}\ntoken_digests := {{{digests[1:-1]}}}\n"
    # authz.rego compares a path as the list of its segments.
    opened = {
        name: [(method, path.removeprefix("/").split("/")) for method, path in service.requests]
        for name, service in SCOPES.items()
    }
    paths = {_sha256(token): opened[name] for name, valid in scoped.items() for token in valid}
    if not paths:
        return text
    return f"{text}\nscoped_requests := {json.dumps(paths, sort_keys=True)}\n"


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def settings_module(text: str, settings: Settings, active: Sequence[Instance], path: Path) -> str:
    """settings.rego with each value replaced. The file is its own template, so that its defaults
    can be tested. Raises InputError.
    """
    for name, value in settings_document(settings, active).items():
        matches = list(re.finditer(rf"^{name} := .*$", text, flags=re.MULTILINE))
        if len(matches) != 1:
            raise InputError(
                path,
                f"has {len(matches)} lines `{name} := ...`, where deployment writes the setting: "
                "keep one",
            )
        before, after = text[: matches[0].start()], text[matches[0].end() :]
        literal = json.dumps(value, sort_keys=True)
        literal = f"object.union({{}}, {literal})" if name in _UNTYPED else literal
        text = f"{before}{name} := {literal}{after}"
    return text

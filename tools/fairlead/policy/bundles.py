"""Collects the modules of the policies, and writes the settings into settings.rego."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlead.common import files
from fairlead.common.errors import InputError, UsageError
from fairlead.policy import carried, instances, intent_file, intents
from fairlead.policy.instances import Instance
from fairlead.policy.revision import MAIN, STAGED_KEY
from fairlead.policy.revision import revision as revision
from fairlead.policy.tables import INTENTS, intents_module
from fairlead.policy.token_scopes import SCOPES
from fairlead.settings.models import Settings
from fairlead.settings.services import SERVICES

SETTINGS = "settings.rego"
AUTHZ = "authz.rego"
LOG = "log.rego"
FILE_MODULES = (AUTHZ, LOG)
"""The modules that protect OPA itself, which it reads from files: no API call can replace them."""

ScopedTokens = Mapping[str, Sequence[str]]
"""The valid tokens of each scope, by its name; the one to use comes first."""
NO_SCOPES: ScopedTokens = MappingProxyType({})
_KEPT = ("cases", "crds", "engines", "samples")
"""The folders of an intent that hold YAML: for checks, people and other engines, not for OPA."""
_UNTYPED = ("parameters", "instances")
"""The settings of which a policy may read a key that is missing. OPA rejects a reference to a key
that a constant lacks, but does not look into what a function returns."""
_LIBRARY = re.compile(r"\bdata\.(lib\.\w+)")
QUERIES = "visibility"
"""The folder with the queries of `fairlead query`, which no deployment has: to answer them takes
longer than a decision may wait."""
SIGNED = "signed_bundle"
"""The folder with what a signed bundle has in addition (see fairlead.distribution)."""
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

    def active(self, settings: Settings) -> list[Instance]:
        """The instances of the intents of these modules, by package and name. Raises UsageError."""
        document = settings.document()
        active: list[Instance] = []
        for key, text in sorted(self.modules.items()):
            parts = STAGED_KEY.sub("", key).split(".")
            if len(parts) != 3 or parts[0] != parts[1]:
                continue
            source = self.sources.get(key)
            intent = intents.of_folder(source.parent) if source else carried.of_module(text, key)
            if intent is None:
                continue
            try:
                active += instances.of(intent, settings, document)
            except ValueError as error:
                raise UsageError(f"settings: {error}") from error
        return active


def modules_of(data: Mapping[str, str]) -> dict[str, str]:
    """The modules in the data of a ConfigMap of policies, which may hold more than modules."""
    return {key: text for key, text in data.items() if key.endswith(".rego")}


def folder() -> Path:
    """The folder of the project's own policies."""
    return intents.builtin_folder()


def bundle(
    settings: Settings, source: Path | None = None, *, queries: bool = False, signed: bool = False
) -> Bundle:
    """The modules of all policies in force, with `settings` in settings.rego and the table of the
    intents in intents.rego.

    They come from the project's own folder and the folders that the settings name. If `source` has
    a main.rego, it takes the place of the project's folder; otherwise it is one more folder.
    Intents that are switched off, and tests, are left out, and so are FILE_MODULES, which OPA reads
    from a Secret. QUERIES are there only with `queries`. Raises InputError if a module cannot be
    read or has the name of another one, and UsageError if a parameter or an intent's METADATA are
    wrong.
    """
    unset = _unset(settings, source, queries=queries, signed=signed)
    active = unset.active(settings)
    modules = {INTENTS: intents_module(active)}
    if SETTINGS in unset.modules:
        modules[SETTINGS] = _with_settings(
            unset.modules[SETTINGS],
            settings_document(settings, active),
            unset.sources[SETTINGS],
        )
    return Bundle({**unset.modules, **modules}, unset.sources)


def _unset(settings: Settings, source: Path | None, *, queries: bool, signed: bool) -> Bundle:
    """The modules without the settings. Raises InputError."""
    sources = {
        key: path
        for key, path in module_files(settings, source, queries=queries, signed=signed).items()
        if not path.name.endswith("_test.rego")
    }
    modules = {key: _text(path) for key, path in sources.items()}
    unused = unused_libraries(modules)
    remaining = {key: text for key, text in modules.items() if key not in unused}
    return Bundle(remaining, {key: sources[key] for key in remaining})


def _text(path: Path) -> str:
    """A module as a cluster gets it: that of an intent carries what its intent.yaml says."""
    text, facts = files.read_text(path), path.with_name(intent_file.FILE)
    if path.stem != path.parent.name or not facts.is_file():
        return text
    return carried.carrying(text, files.read_text(facts))


def unused_libraries(modules: Mapping[str, str]) -> set[str]:
    """The keys of the modules below `lib` that no others use, directly or through one another."""
    texts = [text for key, text in modules.items() if not _is_library(key)]
    libraries: set[str] = set()
    while new := {name for text in texts for name in _LIBRARY.findall(text)} - libraries:
        libraries |= new
        texts = [text for key, text in modules.items() if _library_of(key) in new]
    return {key for key in modules if _is_library(key) and _library_of(key) not in libraries}


def _is_library(key: str) -> bool:
    return key.startswith("lib.")


def _library_of(key: str) -> str:
    """`lib.<name>` for a module of that package."""
    return ".".join(key.split(".")[:2])


def folders(settings: Settings, source: Path | None = None) -> list[Path]:
    """The folders of policies: first the one with main.rego, then those of users, each once."""
    is_complete = source is not None and (source / MAIN).is_file()
    further = [Path(path) for path in settings.policies]
    further += [source] if source is not None and not is_complete else []
    first = source if source is not None and is_complete else folder()
    return list(dict.fromkeys(path.resolve() for path in (first, *further)))


def placed(settings: Settings, source: Path | None) -> tuple[Settings, Path | None]:
    """The settings with `source` among their folders, and None. If it has a main.rego, the settings
    as they are, and `source`, which takes the place of the project's folder.
    """
    if source is not None and (source / MAIN).is_file():
        return settings, source.resolve()
    places = [str(folder) for folder in folders(settings, source)[1:]]
    return settings.model_copy(update={"policies": places}), None


def module_files(
    settings: Settings, source: Path | None = None, *, queries: bool = False, signed: bool = False
) -> dict[str, Path]:
    """All modules with their tests, by their ConfigMap keys; QUERIES only with `queries`, SIGNED
    only with `signed`. Raises InputError.
    """
    modules: dict[str, Path] = {}
    for number, folder_ in enumerate(folders(settings, source)):
        off = {
            intent.package
            for intent in intents.in_folder(folder_)
            if not settings.instances(intent.name, default=intent.facts.enabled)
        }
        if not number:
            services = settings.services()
            off |= {service.setting for service in SERVICES if service not in services}
        if not number and not queries:
            off.add(QUERIES)
        if not number and not signed:
            off.add(SIGNED)
        packages = {key.split(".")[0] for key in modules}
        for path in _policy_files(folder_):
            parts = path.relative_to(folder_).parts
            if parts[0] in off or path in [folder_ / name for name in FILE_MODULES]:
                continue
            if number and (len(parts) == 1 or parts[0] in packages):
                raise InputError(
                    path,
                    "is in no folder of its own: put it into a folder named like its package"
                    if len(parts) == 1
                    else f"the policies {parts[0]} are there already: choose another name",
                )
            key = ".".join(parts)
            if not _KEY.fullmatch(key) or key in modules:
                raise InputError(
                    path,
                    f"would be the ConfigMap key {key!r}, which is illegal or taken: rename it",
                )
            modules[key] = path
    return modules


def _is_kept(parts: Sequence[str]) -> bool:
    """Whether a YAML or JSON file of a folder of policies is for Fairlead, and not for OPA."""
    if len(parts) <= 2:
        return parts[-1] == (intent_file.SCHEMA if len(parts) == 1 else intent_file.FILE)
    return parts[1] in _KEPT


def _policy_files(root: Path) -> list[Path]:
    """The modules below a folder. Raises InputError for data, and for other FILE_MODULES."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if path.suffix in (".json", ".yaml", ".yml") and not _is_kept(parts):
            raise InputError(
                path,
                "no deployment takes data from here: put it into a ConfigMap, labelled as data",
            )
    for name in FILE_MODULES:
        module = root / name
        if module.exists() and module.read_bytes() != (folder() / name).read_bytes():
            raise InputError(
                module,
                f"differs from {folder() / name}, which protects OPA: change it there, then deploy",
            )
    return sorted(root.rglob("*.rego"))


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
    return {AUTHZ: authz_module(tokens, scoped), LOG: files.read_text(folder() / LOG)}


def authz_module(tokens: list[str], scoped: ScopedTokens = NO_SCOPES) -> str:
    """authz.rego with the SHA-256 digests of the tokens in force, but not the tokens. `tokens` open
    everything, those of a scope (see token_scopes) its requests.
    """
    digests = json.dumps(sorted(map(_sha256, tokens)))
    text = f"{files.read_text(folder() / AUTHZ)}\ntoken_digests := {{{digests[1:-1]}}}\n"
    paths = {
        _sha256(token): SCOPES[name].opened for name, valid in scoped.items() for token in valid
    }
    if not paths:
        return text
    return f"{text}\nscoped_requests := {json.dumps(paths, sort_keys=True)}\n"


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _with_settings(text: str, document: Mapping[str, Any], path: Path) -> str:
    """settings.rego with each value replaced. The file is its own template, so that its defaults
    can be tested.
    """
    for name, value in document.items():
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

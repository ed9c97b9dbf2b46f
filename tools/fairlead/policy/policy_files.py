"""The folders of policies: their modules and intents, read once, and which of the modules settings
put in force."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairlead.common import yaml_files
from fairlead.common.errors import InputError
from fairlead.opa.module_names import ModuleName
from fairlead.policy import carried, intent_file, intents
from fairlead.policy.intents import Intent
from fairlead.policy.revision import MAIN
from fairlead.settings.models import Settings
from fairlead.settings.services import SERVICES

AUTHZ = "authz.rego"
FILE_MODULES = (AUTHZ,)
"""The modules that protect OPA itself, which it reads from files: no API call can replace them."""
QUERIES = "visibility"
"""The folder with the queries of `fairlead query`, which no deployment has: to answer them takes
longer than a decision may wait."""
SIGNED = "signed_bundle"
"""The folder with what a signed bundle has in addition (see fairlead.distribution)."""
_KEPT = ("cases", "crds", "engines", "samples")
"""The folders of an intent that hold YAML: for checks, people and other engines, not for OPA."""
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,200}")


@dataclass(frozen=True)
class PolicyFolder:
    """A folder of policies: its modules with their tests, and its intents. The module of an intent
    carries what its intent.yaml says, as a cluster gets it.
    """

    path: Path
    modules: Mapping[Path, str]
    intents: tuple[Intent, ...]

    @classmethod
    def read(cls, path: Path) -> PolicyFolder:
        """Raises InputError for an intent.yaml that is wrong, data, and other FILE_MODULES."""
        _require_no_data(path)
        _require_same_file_modules(path)
        modules = {module: yaml_files.read_text(module) for module in sorted(path.rglob("*.rego"))}
        described = tuple(intents.in_folder(path, modules))
        for intent in described:
            modules[intent.module] = carried.carrying(modules[intent.module], intent.text)
        return cls(path, modules, described)


@dataclass(frozen=True)
class PolicyFiles:
    """All folders, first the one with main.rego: the project's, or one in its place."""

    folders: tuple[PolicyFolder, ...] = ()

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All intents, also those that are not in force."""
        return tuple(intent for folder in self.folders for intent in folder.intents)

    def of(self, first: Path | None, further: Iterable[str]) -> PolicyFiles:
        """Those of the first folder, by default the project's, and of further ones. What is not
        among these yet is read. Raises InputError.
        """
        by_path = {folder.path: folder for folder in self.folders}
        return PolicyFiles(
            tuple(
                by_path.get(path) or PolicyFolder.read(path) for path in _each_once(first, further)
            )
        )

    def in_force(self, settings: Settings, further: Collection[str] = ()) -> dict[str, Path]:
        """The modules of intents in force and of libraries, with their tests, by their ConfigMap
        keys. `further` names folders that deployments leave out: QUERIES, SIGNED. Raises InputError
        for a module that cannot be there.
        """
        modules: dict[str, Path] = {}
        for number, folder in enumerate(self.folders):
            off = {
                intent.package
                for intent in folder.intents
                if not settings.instances(intent.name, default=intent.facts.enabled)
            }
            if not number:
                services = settings.services()
                off |= {service.setting for service in SERVICES if service not in services}
                off |= {QUERIES, SIGNED}.difference(further)
            taken = {key.split(".")[0] for key in modules}
            for path in folder.modules:
                parts = path.relative_to(folder.path).parts
                if parts[0] in off or (len(parts) == 1 and parts[0] in FILE_MODULES):
                    continue
                key = _key(path, parts, taken if number else None)
                if key in modules:
                    raise InputError(path, _illegal(key))
                modules[key] = path
        return modules

    def text(self, path: Path) -> str:
        """A module, as a cluster gets it."""
        return next(f.modules[path] for f in self.folders if path in f.modules)

    def name(self, key: str, path: Path) -> ModuleName:
        """The name of a module, its ConfigMap key, for OPA's program."""
        lines = carried.without_facts(self.text(path)).count("\n")
        return ModuleName(key, path, lines)


NONE = PolicyFiles()


def builtin() -> Path:
    """The folder of the project's own policies."""
    return intents.builtin_folder()


def placed(settings: Settings, folder: Path | None) -> tuple[Settings, Path | None]:
    """The settings with `folder` among their folders, and None. If it has a main.rego, the settings
    as they are, and `folder`, which takes the place of the project's folder.
    """
    if folder is not None and (folder / MAIN).is_file():
        return settings, folder.resolve()
    if folder is None:
        return settings, None
    folders = dict.fromkeys(Path(path).resolve() for path in (*settings.policies, str(folder)))
    return settings.model_copy(update={"policies": list(map(str, folders))}), None


def paths(settings: Settings, folder: Path | None = None) -> list[Path]:
    """The folders of policies: first the one with main.rego, then those of users, each once."""
    settings, replacing = placed(settings, folder)
    return _each_once(replacing, settings.policies)


def _each_once(first: Path | None, further: Iterable[str]) -> list[Path]:
    """The first folder, by default the project's, and those after it."""
    folders = [first or builtin(), *map(Path, further)]
    return list(dict.fromkeys(path.resolve() for path in folders))


def _key(path: Path, parts: Sequence[str], taken: Collection[str] | None) -> str:
    """The ConfigMap key of a module. `taken` are the names of folders that others have; None for
    the first folder. Raises InputError.
    """
    if taken is not None and len(parts) == 1:
        raise InputError(
            path, "is in no folder of its own: put it into a folder named like its package"
        )
    if taken is not None and parts[0] in taken:
        raise InputError(path, f"the policies {parts[0]} are there already: choose another name")
    key = ".".join(parts)
    if not _KEY.fullmatch(key):
        raise InputError(path, _illegal(key))
    return key


def _illegal(key: str) -> str:
    return f"would be the ConfigMap key {key!r}, which is illegal or taken: rename it"


def _require_no_data(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix in (".json", ".yaml", ".yml") and not _is_kept(parts):
            raise InputError(
                path,
                "no deployment takes data from here: put it into a ConfigMap, labelled as data",
            )


def _is_kept(parts: Sequence[str]) -> bool:
    """Whether a YAML or JSON file of a folder of policies is for Fairlead, and not for OPA."""
    if len(parts) <= 2:
        return parts[-1] == (intent_file.SCHEMA if len(parts) == 1 else intent_file.FILE)
    return parts[1] in _KEPT


def _require_same_file_modules(folder: Path) -> None:
    for name in FILE_MODULES:
        module = folder / name
        if module.exists() and module.read_bytes() != (builtin() / name).read_bytes():
            raise InputError(
                module,
                f"differs from {builtin() / name}, which protects OPA: change it there, then "
                "deploy",
            )

"""The policies that a command works with, read once and handed down.

A command loads a `PolicySet` where it learns its settings and its folder of policies, and hands it
to all that it calls. The same files under other settings are `PolicySet.under`. What a cluster has
is a `PolicySet`, too: `PolicySet.deployed`. Its modules have the names of their source;
`staging.staged` makes those that a cluster gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.common.errors import UsageError
from fairlead.policy import bundles, carried, instances, libraries, policy_files, tables
from fairlead.policy.bundles import Bundle
from fairlead.policy.exceptions import PolicyException
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.policy.policy_files import PolicyFiles
from fairlead.policy.revision import STAGED_KEY
from fairlead.settings.models import IntentSettings, Settings
from fairlead.settings.services import SERVICES


@dataclass(frozen=True)
class PolicySet:
    """Policies with the settings that they are in force with.

    `bundle` has the modules of the policies in force, with these settings in settings.rego and the
    table of the intents in intents.rego. `active` are the instances of intents that are in force,
    each with its parameters and requests, by package and name. `files` are what the modules come
    from, with all intents and tests; there are none for policies that are deployed. `further` names
    folders that deployments leave out: policy_files.QUERIES, policy_files.SIGNED.
    """

    settings: Settings
    bundle: Bundle
    active: tuple[Instance, ...] = ()
    files: PolicyFiles = policy_files.NONE
    further: frozenset[str] = frozenset()

    @classmethod
    def load(
        cls,
        settings: Settings,
        folder: Path | None = None,
        *,
        files: PolicyFiles = policy_files.NONE,
        further: Iterable[str] = (),
    ) -> PolicySet:
        """Read the policies of the project and of the folders that the settings name.

        If `folder` has a main.rego, it takes the place of the project's; otherwise it is one more
        folder. Intents that are switched off, and tests, are in no bundle, and neither are
        FILE_MODULES, which OPA reads from a Secret. `files` are those that were read already.
        Raises InputError if a file cannot be read or is wrong, and UsageError if parameters are.
        """
        settings, replacing = policy_files.placed(settings, folder)
        files = files.of(replacing, settings.policies)
        return _in_force(files, settings, frozenset(further))

    @classmethod
    def deployed(cls, data: Mapping[str, str], settings: Settings) -> PolicySet:
        """The policies in the data of a ConfigMap, staged or not, with the settings that it
        records. `modules` are all of the data, so that the revision is that of the ConfigMap.
        Raises InputError, and UsageError if parameters are wrong.
        """
        described = (
            carried.of_module(text, key)
            for key, text in sorted(data.items())
            if _is_main(STAGED_KEY.sub("", key))
        )
        active = _instances((intent for intent in described if intent), settings)
        return cls(settings, Bundle(data), active)

    def under(self, settings: Settings) -> PolicySet:
        """The same files by other settings, which may name fewer folders. Raises as `load`."""
        return _in_force(self.files.of(self.folders[0], settings.policies), settings, self.further)

    def excepting(self, exceptions: Sequence[PolicyException]) -> PolicySet:
        """The same policies for an engine that cannot look up exceptions in the cluster."""
        return replace(self, active=instances.excepting(self.active, exceptions))

    @classmethod
    def examples(
        cls,
        settings: Settings,
        folder: Path | None = None,
        *,
        files: PolicyFiles = policy_files.NONE,
    ) -> PolicySet:
        """The policies of the same folders as `load` reads, by default settings, for checks: all
        intents are in force that the settings do not switch off, with parameters that are examples.
        Raises InputError.
        """
        settings, replacing = policy_files.placed(settings, folder)
        files = files.of(replacing, settings.policies)
        return _in_force(files, _example_settings(files, settings), frozenset())

    def with_examples(self) -> PolicySet:
        """The same files as `examples` has them. Raises InputError."""
        return self.under(_example_settings(self.files, self.settings))

    def with_bundle(self, bundle: Bundle) -> PolicySet:
        """These policies with other modules that decide the same, such as staged ones."""
        return replace(self, bundle=bundle)

    @property
    def intents(self) -> tuple[Intent, ...]:
        """All intents, also those that are not in force."""
        return self.files.intents

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that the policies come from, first the one with main.rego."""
        return tuple(folder.path for folder in self.files.folders)

    @property
    def has_own(self) -> bool:
        """Whether there are policies of users beside the project's, or in their place."""
        return self.folders != (policy_files.builtin().resolve(),)

    @property
    def modules(self) -> Mapping[str, str]:
        """The texts of the modules, by their ConfigMap keys."""
        return self.bundle.modules

    @property
    def sources(self) -> Mapping[str, Path]:
        """The file of each module, for messages; empty for policies that are deployed."""
        return self.bundle.sources

    @property
    def revision(self) -> str:
        """12 hex digits that identify these modules."""
        return self.bundle.revision


def _in_force(files: PolicyFiles, settings: Settings, further: frozenset[str]) -> PolicySet:
    """The policies of these files that the settings put in force."""
    in_force = files.in_force(settings, further)
    sources = {key: path for key, path in in_force.items() if not path.name.endswith("_test.rego")}
    modules: dict[str, str] = {
        files.name(key, path): files.text(path) for key, path in sources.items()
    }
    for key in libraries.unused(modules):
        del modules[key], sources[key]
    present = set(sources.values())
    described = (intent for intent in files.intents if intent.module in present)
    active = _instances(sorted(described, key=lambda intent: intent.package), settings)
    modules[tables.INTENTS] = tables.intents_module(active)
    if bundles.SETTINGS in modules:
        modules[bundles.SETTINGS] = bundles.settings_module(
            modules[bundles.SETTINGS], settings, active, sources[bundles.SETTINGS]
        )
    return PolicySet(settings, Bundle(modules, sources), active, files, further)


def _example_settings(files: PolicyFiles, settings: Settings) -> Settings:
    off = settings.disabled()
    examples = {
        intent.name: IntentSettings(parameters=intent.example())
        for intent in files.intents
        if intent.name not in off
    }
    services = {service.setting: getattr(settings, service.setting) for service in SERVICES}
    return Settings(policies=settings.policies, intents={**off, **examples}, **services)


def _instances(described: Iterable[Intent], settings: Settings) -> tuple[Instance, ...]:
    """The instances of these intents. Raises InputError, UsageError."""
    document = settings.document()
    active: list[Instance] = []
    for intent in described:
        try:
            active += instances.of(intent, settings, document)
        except ValueError as error:
            raise UsageError(f"settings: {error}") from error
    return tuple(active)


def _is_main(key: str) -> bool:
    """Whether a key is that of an intent's module: `node_pool.node_pool.rego`."""
    parts = key.split(".")
    return len(parts) == 3 and parts[0] == parts[1] and parts[2] == "rego"

"""The policies that a command works with, read once and handed down.

A command loads a `PolicySet` where it learns its settings and its folder of policies, and hands it
to all that it calls. What a cluster has is a `PolicySet`, too: `PolicySet.deployed`. Its modules
have the names of their source; `staging.staged` makes those that a cluster gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fairlead.policy import bundles, intents
from fairlead.policy.bundles import Bundle
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.settings.models import IntentSettings, Settings
from fairlead.settings.services import SERVICES


@dataclass(frozen=True)
class PolicySet:
    """Policies with the settings that they are in force with.

    `folders` are those that the policies come from, first the one with main.rego; `folder` is the
    one that the user named beside those of the settings. `bundle` has the modules of the policies
    in force. `intents` are all intents of these folders, also those that are not in force, and
    `active` the instances that are, each with its parameters and requests, by package and name.
    """

    settings: Settings
    folder: Path | None
    folders: tuple[Path, ...]
    bundle: Bundle
    intents: tuple[Intent, ...]
    active: tuple[Instance, ...]

    @classmethod
    def load(
        cls,
        settings: Settings,
        folder: Path | None = None,
        *,
        queries: bool = False,
        signed: bool = False,
    ) -> PolicySet:
        """Read the policies of these settings and of `folder`, as bundles.bundle describes. Raises
        InputError, and UsageError if parameters are wrong.
        """
        bundle = bundles.bundle(settings, folder, queries=queries, signed=signed)
        folders = tuple(bundles.folders(settings, folder))
        every = tuple(intent for source in folders for intent in intents.in_folder(source))
        return cls(settings, folder, folders, bundle, every, tuple(bundle.active(settings)))

    @classmethod
    def deployed(cls, data: Mapping[str, str], settings: Settings) -> PolicySet:
        """The policies in the data of a ConfigMap, staged or not, with the settings that it
        records. They come from no folder, and all their intents are in force. `modules` are all of
        the data, so that the revision is that of the ConfigMap. Raises InputError, and UsageError
        if parameters are wrong.
        """
        bundle = Bundle(data)
        active = tuple(bundle.active(settings))
        by_name = {instance.intent.name: instance.intent for instance in active}
        return cls(settings, None, (), bundle, tuple(by_name.values()), active)

    def as_examples(self) -> PolicySet:
        """These policies with default settings, for checks: all intents are in force that the
        settings do not switch off, with parameters that are examples. Raises InputError.
        """
        off = self.settings.disabled()
        examples = {
            intent.name: IntentSettings(parameters=intent.example())
            for intent in self.intents
            if intent.name not in off
        }
        services = {each.setting: getattr(self.settings, each.setting) for each in SERVICES}
        settings = Settings(
            policies=self.settings.policies, intents={**off, **examples}, **services
        )
        return PolicySet.load(settings, self.folder)

    def with_bundle(self, bundle: Bundle) -> PolicySet:
        """These policies with other modules that decide the same, such as staged ones."""
        return replace(self, bundle=bundle)

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

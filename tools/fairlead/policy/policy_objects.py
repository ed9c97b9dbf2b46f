"""Policies and settings as objects of the API: `Policy` and `Fairlead` (policy.fairlead.dev/v1).

A Policy holds what the folder of a policy holds, with the instances of its intent, and Fairlead the
settings. Together they are what a settings file and its folders are: a PolicySet.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field, ValidationError

from fairlead.common import mistakes, yaml_files
from fairlead.common.digests import digest
from fairlead.common.errors import FairleadError, UsageError
from fairlead.kube.own_kinds import (
    FAIRLEADS,
    GROUP,
    LONGEST_REGO,
    NAME,
    PINNED,
    POLICIES,
    VERSION,
)
from fairlead.policy import carried, fairlead_yaml, intent_file, intents, metadata, policy_files
from fairlead.policy.exceptions import EXCEPTION, ExceptionSpec
from fairlead.policy.fairlead_yaml import Rules
from fairlead.policy.intents import Intent
from fairlead.policy.policy_files import PolicyFiles, PolicyFolder
from fairlead.policy.policy_set import PolicySet
from fairlead.settings import structural
from fairlead.settings.models import Instance, IntentName, Mode, Settings

FAIRLEAD, POLICY = FAIRLEADS[1], POLICIES[1]
"""The kinds."""
_ROOT = Path("/", GROUP)
"""Stands for the folder of all Policies, of which no file exists."""
_IN_FILES = ("writtenFor",)
"""What an intent.yaml says of files that no object has."""
_ELSEWHERE = ("policies",)
"""The settings that objects do not have: there are Policies in the place of folders."""
_PLACE = re.compile(
    rf"(?:{re.escape(str(_ROOT))}|{re.escape(_ROOT.name)})/(\w+)/([\w.-]+)(?::(\d+))?"
)
_SUMMARY = re.compile(r"^opa \w+: 1 error occurred: ")
"""What OPA writes before the only mistake."""
_INSTANCE = re.compile(rf"{FAIRLEAD}: intents\.([-\w]+)\.(.*)")
_OF_SETTINGS = f"{FAIRLEAD}: "
Key = tuple[str, str]
"""The kind and the name of an object."""
_Module = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*\.rego$", max_length=100)]


class PolicyInstance(Instance):
    """An instance of the Policy's intent."""

    enforcement: Mode | None = None
    """Whether it refuses (`deny`) or only warns; by default what Fairlead says of all intents."""


class PolicySpec(PolicyInstance):
    """A policy: its Rego, the facts of its intent, and how it is in force. The parameters, the
    selected namespaces, the exemptions and the enforcement are those of the instance with the
    Policy's own name.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    rego: str = Field(min_length=1, max_length=LONGEST_REGO)
    """The module of its package, which is named like the Policy, with `_` for `-`."""
    modules: dict[_Module, Annotated[str, Field(max_length=LONGEST_REGO)]] = {}
    """Further modules of the same policy, by file name."""
    intent: intent_file.Facts | None = None
    """What an intent.yaml says. Without it, the policy is a library that others import."""
    instances: dict[IntentName, PolicyInstance] = {}
    """Further instances of its intent, by name."""


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """The structural schema of the spec of each kind."""
    return {
        FAIRLEAD: structural.of_model(Settings, without=_ELSEWHERE),
        POLICY: structural.of_model(PolicySpec),
        EXCEPTION: structural.of_model(ExceptionSpec),
    }


def pinned(fairlead: Mapping[str, Any]) -> str:
    """The revision that is in force in place of what the objects say; empty for none."""
    return str((fairlead["metadata"].get("annotations") or {}).get(PINNED, ""))


def fingerprint(every: Iterable[Mapping[str, Any]]) -> str:
    """12 hex digits that identify what these objects, from the API's JSON, say."""
    parts = [
        (value["metadata"]["uid"], value["metadata"]["generation"], pinned(value))
        for value in every
    ]
    return digest(json.dumps(sorted(parts)).encode())


class WrongObjects(UsageError):
    """Objects have mistakes: `faults` are the texts of each, by its kind and name."""

    def __init__(self, faults: Mapping[Key, Sequence[str]]) -> None:
        self.faults = {key: tuple(texts) for key, texts in faults.items()}
        super().__init__(
            "\n".join(
                f"{kind} {name}: {text}" for (kind, name), texts in faults.items() for text in texts
            )
        )


@dataclass(frozen=True)
class WrittenPolicy:
    """A Policy: its model, and its spec as it was written."""

    name: str
    spec: PolicySpec
    written: Mapping[str, Any]

    @property
    def package(self) -> str:
        """The package of its Rego, which is the name of its folder."""
        return self.name.replace("-", "_")

    def document(self) -> dict[str, Any]:
        """What the settings say of its intent: each instance, by name."""
        own = {key: self.written[key] for key in Instance.model_fields if key in self.written}
        instances = {
            name: {key: part for key, part in instance.items() if key in Instance.model_fields}
            for name, instance in (self.written.get("instances") or {}).items()
        }
        return {self.name: {"enabled": True, **own}} | {
            name: {**instance, "intent": self.name} for name, instance in instances.items()
        }

    def modes(self) -> dict[str, Mode]:
        """The enforcement of the instances that have one of their own."""
        every = {self.name: self.spec, **self.spec.instances}
        return {name: one.enforcement for name, one in every.items() if one.enforcement}


@dataclass(frozen=True)
class PolicyObjects:
    """The objects from which the policies in force are made, but for the project's own."""

    settings: Mapping[str, Any]
    policies: tuple[WrittenPolicy, ...]

    @classmethod
    def read(
        cls, fairlead: Mapping[str, Any], policies: Iterable[Mapping[str, Any]]
    ) -> PolicyObjects:
        """Read the object Fairlead and all Policies, from the API's JSON. Raises WrongObjects with
        every mistake in the form of a Policy.
        """
        faults: dict[Key, list[str]] = {}
        written = [policy for value in policies if (policy := _written(value, faults))]
        if faults:
            raise WrongObjects(faults)
        return cls(fairlead.get("spec") or {}, tuple(written))

    def policy_set(self, rules: Rules) -> PolicySet:
        """The policies that they make, beside the project's. Raises WrongObjects for mistakes in
        the objects, and FairleadError.
        """
        with self.explained():
            own = [self._folder()] if self.policies else []
            files = PolicyFiles((*policy_files.NONE.of(None, ()).folders, *own))
            document = yaml_files.Document(Path(FAIRLEAD), self._document(), None)
            settings = fairlead_yaml.parse(document, files.intents, rules)
            folders = [str(folder.path) for folder in own]
            return PolicySet.load(settings.model_copy(update={"policies": folders}), files=files)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Has errors about the objects name them, as WrongObjects."""
        try:
            yield
        except WrongObjects:
            raise
        except FairleadError as error:
            if faults := self._faults(str(error)):
                raise WrongObjects(faults) from error
            raise

    def _faults(self, text: str) -> dict[Key, list[str]]:
        """The lines of an error that name a place in the objects, by the object."""
        owners = {name: policy for policy in self.policies for name in policy.document()}
        by_package = {policy.package: policy for policy in self.policies}
        faults: dict[Key, list[str]] = {}
        for line in text.splitlines():
            place, about = _PLACE.search(line), _INSTANCE.match(line)
            if place and (policy := by_package.get(place[1])):
                fault = _PLACE.sub(partial(_field, policy), _SUMMARY.sub("", line))
                faults.setdefault((POLICY, policy.name), []).append(fault)
            elif about and (policy := owners.get(about[1])):
                field = "spec" if about[1] == policy.name else f"spec.instances.{about[1]}"
                faults.setdefault((POLICY, policy.name), []).append(f"{field}.{about[2]}")
            elif line.startswith(_OF_SETTINGS):
                fault = f"spec: {line.removeprefix(_OF_SETTINGS)}"
                faults.setdefault((FAIRLEAD, NAME), []).append(fault)
        return faults

    def _folder(self) -> PolicyFolder:
        """The Policies as a folder. Raises InputError."""
        modules: dict[Path, str] = {}
        described: list[Intent] = []
        for policy in self.policies:
            folder = _ROOT / policy.package
            main = folder / f"{policy.package}.rego"
            modules |= {folder / name: text for name, text in policy.spec.modules.items()}
            modules[main] = policy.spec.rego
            if policy.spec.intent:
                facts = yaml.safe_dump(policy.written["intent"], sort_keys=False)
                described.append(
                    intents.described_by(
                        policy.package,
                        metadata.of(policy.spec.rego, main),
                        facts,
                        str(folder / intent_file.FILE),
                    )
                )
                modules[main] = carried.carrying(policy.spec.rego, facts)
        return PolicyFolder(_ROOT, modules, tuple(described))

    def _document(self) -> dict[str, Any]:
        """The settings with what the Policies say of their instances. Raises WrongObjects if both,
        or two Policies, name one.
        """
        document = copy.deepcopy(dict(self.settings))
        entries: dict[str, Any] = document.setdefault("intents", {})
        modes = document.setdefault("enforcement", {})
        for policy in self.policies:
            if policy.spec.intent is None:
                continue
            for name, instance in policy.document().items():
                if name in entries:
                    place = f"instances.{name}" if name != policy.name else "metadata.name"
                    fault = f"{place}: {FAIRLEAD} or another {POLICY} has an intent {name!r}, too"
                    raise WrongObjects({(POLICY, policy.name): [f"{fault}: choose another name"]})
                entries[name] = instance
            modes |= policy.modes()
        return document


def _written(value: Mapping[str, Any], faults: dict[Key, list[str]]) -> WrittenPolicy | None:
    """A Policy from the API's JSON; None if it has mistakes, which are added to `faults`."""
    name, written = str(value["metadata"]["name"]), value.get("spec") or {}
    problem = intents.name_problem(name.replace("-", "_"))
    if problem:
        faults[POLICY, name] = [f"metadata.name: {problem}"]
        return None
    try:
        return WrittenPolicy(name, PolicySpec.model_validate(written), written)
    except ValidationError as error:
        found = mistakes.of(error, PolicySpec, written)
        faults[POLICY, name] = [f"spec: {mistake.text}" for mistake in found]
        return None


def _field(policy: WrittenPolicy, place: re.Match[str]) -> str:
    """Where in a Policy a place in its folder is: `spec.rego:3`."""
    if place[2] == intent_file.FILE:
        return "spec.intent"  # no line: nobody has seen the text that it is of
    if not place[2].endswith(".rego"):
        return place[2]  # what no object has, such as code for another engine
    field = "spec.rego" if place[2] == f"{policy.package}.rego" else f"spec.modules[{place[2]}]"
    return f"{field}:{place[3]}" if place[3] else field


def of_policy_set(policies: PolicySet) -> list[dict[str, Any]]:
    """The objects that make the same policies: Fairlead first, and a Policy for each folder of
    users. Raises UsageError for folders that are in the place of the project's.
    """
    first, *further = policies.files.folders
    if first.path != policy_files.builtin().resolve():
        raise UsageError(
            f"{first.path} is in the place of the project's policies, which come with the image of "
            f"the controller: a {POLICY} can only be one more"
        )
    settings = policies.settings
    document = settings.model_dump(by_alias=True, exclude_defaults=True, exclude={*_ELSEWHERE})
    entries = document.pop("intents", {})
    modes = dict(settings.enforcement)
    objects = [
        _policy(folder, package, entries, modes)
        for folder in further
        for package in _packages(folder)
    ]
    if entries:
        document["intents"] = entries
    document.pop("enforcement", None)
    if settings.access is None:
        document.pop("access")
    if modes:
        document["enforcement"] = modes
    fairlead = {
        "apiVersion": VERSION,
        "kind": FAIRLEAD,
        "metadata": {"name": NAME},
        "spec": document,
    }
    return [fairlead, *sorted(objects, key=lambda policy: str(policy["metadata"]["name"]))]


def _packages(folder: PolicyFolder) -> list[str]:
    return sorted({path.relative_to(folder.path).parts[0] for path in folder.modules})


def _policy(
    folder: PolicyFolder, package: str, entries: dict[str, Any], modes: dict[str, Mode]
) -> dict[str, Any]:
    """The Policy of one package; its instances are taken out of the settings' `entries`, and their
    enforcement out of `modes`. Raises UsageError if its main module is missing.
    """
    name, main = package.replace("_", "-"), folder.path / package / f"{package}.rego"
    if main not in folder.modules:
        raise UsageError(
            f"{main}: a {POLICY} needs this module: the others of its folder are beside it"
        )
    intent = next((one for one in folder.intents if one.package == package), None)
    texts = {
        ".".join(path.relative_to(main.parent).parts): text
        for path, text in folder.modules.items()
        if path.is_relative_to(main.parent) and not path.name.endswith("_test.rego")
    }
    spec: dict[str, Any] = {"rego": carried.without_facts(texts.pop(main.name))}
    if texts:
        spec["modules"] = texts
    if intent is None:
        return _object(name, spec)
    spec["intent"] = {
        key: part for key, part in intent.document.value.items() if key not in _IN_FILES
    }
    if name not in entries and not intent.facts.enabled:
        spec["enabled"] = False
    further = [instance for instance, entry in entries.items() if entry.get("intent") == name]
    for instance in dict.fromkeys([name, *further]):
        own = dict(entries.pop(instance, {}))
        own.pop("intent", None)
        if mode := modes.pop(instance, None):
            own["enforcement"] = mode
        if instance == name:
            spec |= own
        else:
            spec.setdefault("instances", {})[instance] = own
    return _object(name, spec)


def _object(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": VERSION, "kind": POLICY, "metadata": {"name": name}, "spec": spec}

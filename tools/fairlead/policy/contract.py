"""Checks that each intent keeps the contract of main.rego, and says in words what is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import cases, intent_file, parameter_rules
from fairlead.policy.instances import Instance
from fairlead.policy.intents import Intent
from fairlead.policy.policy_files import PolicyFolder
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.revision import PACKAGE
from fairlead.settings.services import SERVICES

_SERVICES = {(service.setting, service.package) for service in SERVICES}
_DECISION = re.compile(r"^decision\b", re.MULTILINE)
_TYPES = {
    "deny": ("set", "a set of messages: `deny contains message if ...`"),
    "warn": ("set", "a set of messages; `set()` if it never warns"),
    "patch": ("array", "a list of JSON Patch operations; `[]` if it patches nothing"),
}
# What a decision is: the type of each of its keys, and of what the keys hold.
_MODULE = """
package fairlead_contract

types(decision) := {key: {"type": type_name(value), "items": {type_name(item) | some item in value}} |
    some key, value in decision
}

decisions := {intent: types(decision) | some intent, decision in _unconcerned}

_unconcerned := decided if decided := data.intents.decisions with input as data.system.health._review
"""  # noqa: E501


def require(examples: PolicySet, progress: Progress) -> None:
    """Raises UsageError that lists everything that an intent does against the contract, in a set
    with examples of parameters (PolicySet.with_examples).
    """
    _require_none(
        [
            *_of_policies(examples, examples.files.folders, progress),
            *(problem for instance in examples.active for problem in _of_cases(instance.intent)),
            *(problem for instance in examples.active for problem in _of_engines(instance.intent)),
        ]
    )


def require_of_users(examples: PolicySet, progress: Progress) -> None:
    """The same for the policies of users alone, but for what stands in files beside their modules:
    cases, and code for other engines.
    """
    _require_none([*_of_policies(examples, examples.files.folders[1:], progress)])


def _require_none(problems: Sequence[str]) -> None:
    if problems:
        raise UsageError("\n".join(problems))


def _of_policies(
    examples: PolicySet, folders: Sequence[PolicyFolder], progress: Progress
) -> Iterator[str]:
    """What the intents of these folders do against the contract."""
    every = [intent for folder in folders for intent in folder.intents]
    names = {intent.name for intent in every}
    active = [instance for instance in examples.active if instance.intent.name in names]
    yield from (problem for folder in folders for problem in _of_modules(folder))
    yield from _of_schemas(every, progress)
    yield from _of_decisions(examples, active, progress) if active else ()
    yield from (problem for instance in active for problem in _of_reads(instance, examples))


def _of_modules(policies: PolicyFolder) -> Iterator[str]:
    """What is wrong with where modules stand, and with what they are called."""
    packages = {intent.package for intent in policies.intents}
    for path, text in policies.modules.items():
        folder, *below = path.relative_to(policies.path).parts
        if not below:
            continue
        package = PACKAGE.search(text)
        of_service = package and (folder, package[1]) in _SERVICES
        name = folder if of_service else package[1].split(".")[0] if package else ""
        expected = f"{folder}_test" if path.name.endswith("_test.rego") else folder
        if package is None:
            yield f"{path}: names no package: begin it with `package {expected}`"
        elif name != folder and not (
            path.name.endswith("_test.rego") and re.fullmatch(rf"{folder}(_\w+)?_test", name)
        ):
            yield (
                f"{path}: package {name} is in the folder {folder}: call it {expected}, or move it"
            )
        elif path.name == f"{folder}.rego" and _DECISION.search(text) and folder not in packages:
            yield (
                f"{path}: has a decision, but there is no {intent_file.FILE} beside it, which says "
                "what is asked about: nothing would ask for it"
            )


def _of_schemas(every: Sequence[Intent], progress: Progress) -> Iterator[str]:
    """What is wrong with the schemas of parameters, and with their examples."""
    for intent, mistake in parameter_rules.unstructural(every, progress):
        yield f"{intent.source}:{intent.line(mistake.location)}: {mistake.text}"


def _of_decisions(
    policies: PolicySet, active: Sequence[Instance], progress: Progress
) -> Iterator[str]:
    """What is wrong with the decisions about a request that no intent has a say in."""
    try:
        types: Mapping[str, Any] = cli.evaluate(
            "data.fairlead_contract.decisions",
            modules={**policies.modules, "fairlead_contract.rego": _MODULE},
            data={"kubernetes": {"namespaces": {}}},
            progress=progress,
        )
    except FairleadError:  # they do not compile; `opa check` says more about that
        return
    for instance in active:
        source, decision = instance.intent.module, types.get(instance.name)
        if decision is None:
            yield (
                f"{source}: has no `decision` about a request that it has no say in: define "
                '`decision := {"deny": deny, "patch": [], "warn": set()}`, and `deny` as a set'
            )
            continue
        for key, (expected, words) in _TYPES.items():
            if key not in decision:
                yield f"{source}: its decision has no {key!r}: it has to be {words}"
            elif decision[key]["type"] != expected:
                kind = decision[key]["type"]
                yield f"{source}: decision.{key} is of type {kind}: it has to be {words}"
            elif decision[key]["items"]:
                yield (
                    f"{source}: decision.{key} is not empty for a request that no policy has a say "
                    f"in (a CREATE of kind Nothing of fairlead.dev): check the kind of the object"
                )
        for key in sorted(decision.keys() - _TYPES.keys()):
            yield f"{source}: its decision has an unknown key {key!r}: remove it"


def _of_reads(instance: Instance, policies: PolicySet) -> Iterator[str]:
    """The parameters that an intent reads and that its intent.yaml does not have. They would be
    undefined, so that rules that read them decide nothing.
    """
    parameters = list(instance.intent.facts.parameters.get("properties", {}))
    read = re.compile(rf"\bsettings\.parameters\.{instance.intent.package}\.(\w+)")
    for key, text in sorted(policies.modules.items()):
        for match in read.finditer(text):
            if match[1] not in parameters:
                line = text.count("\n", 0, match.start()) + 1
                close = difflib.get_close_matches(match[1], parameters, 1)
                hint = f"did you mean {close[0]!r}?" if close else "add it to parameters"
                yield (
                    f"{policies.sources.get(key, key)}:{line}: {intent_file.FILE} has no parameter "
                    f"{match[1]!r}: {hint}"
                )


def _of_engines(intent: Intent) -> Iterator[str]:
    """Where `writtenFor` and the files in `engines` differ."""
    for engine, file in intent_file.ENGINES.items():
        path = intent.module.parent / "engines" / file
        if (engine in intent.facts.written_for) != path.is_file():
            yield (
                f"{path}: is missing, but writtenFor in {intent_file.FILE} names {engine}: "
                f"write the file, or remove {engine} from there"
                if engine in intent.facts.written_for
                else f"{intent.source}: writtenFor: add {engine}, because there is {path}"
            )


def _of_cases(intent: Intent) -> Iterator[str]:
    folder = intent.module.parent
    if not any(
        re.search(rf"^\s*(- )?intent: *{re.escape(intent.name)}\s*$", path.read_text(), re.M)
        for path in cases.of_policy(folder)
    ):
        yield (
            f"{folder}: the intent {intent.name} has no case: add one to {folder / 'cases'}, such "
            "as `fairlead new policy` writes"
        )

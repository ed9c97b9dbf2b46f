"""Converts documents of other programs into fairlead.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common import errors, yaml_files, yaml_texts
from fairlead.common.errors import InputError
from fairlead.common.mistakes import Mistake
from fairlead.common.progress import Progress
from fairlead.convert import gatekeeper, kyverno
from fairlead.convert.admission_plugins import Plugins
from fairlead.convert.cel import Expressions
from fairlead.convert.findings import (
    Findings,
    Instance,
    NotTakenOver,
    origin_of,
    printable,
)
from fairlead.convert.gatekeeper_templates import Library
from fairlead.convert.pools import Pools, compile_pools
from fairlead.convert.reading import read
from fairlead.policy import fairlead_yaml, intents, parameter_rules
from fairlead.policy.fairlead_yaml import Given
from fairlead.policy.intents import Intent

_LONGEST = 40
"""The most characters of the name of an instance, which is a part of names of webhooks."""


@dataclass(frozen=True)
class Conversion:
    """The settings as in fairlead.yaml, the file itself, and what is left to do.

    `next_steps` are commands; `differences` are what Fairlead does differently, and `assumptions`
    what the input does not say, in sentences.
    """

    settings: Mapping[str, Any]
    text: str
    next_steps: tuple[str, ...]
    differences: tuple[str, ...]
    assumptions: tuple[str, ...]
    not_taken_over: tuple[NotTakenOver, ...]


def convert(paths: Sequence[Path], progress: Progress) -> Conversion:
    """The settings that do what the documents of files, folders and standard input (files.STDIN)
    do.

    Raises UsageError with the mistakes of all documents, InputError if there is nothing to convert,
    and FairleadError if the program that checks parameters cannot be built.
    """
    findings = Findings()
    plugins = Plugins()
    documents = read(paths)
    library, expressions = Library(documents), Expressions(documents, progress)
    problems = []
    for document in documents:
        try:
            if plugins.concerns(document.value):
                plugins.collect(document, findings)
            elif gatekeeper.concerns(document.value):
                gatekeeper.collect(document, findings, library)
            elif kyverno.concerns(document.value):
                kyverno.collect(document, findings, expressions)
            else:
                findings.leave_out(
                    origin_of(document), "it is not a policy that convert reads: leave it out"
                )
        except InputError as error:
            problems.append(error)
    if problems:
        raise errors.together(problems)
    plugins.finish(findings)
    pools = compile_pools(findings)
    settings = _settings(findings, pools, progress)
    text = _text(settings, pools, findings)
    (parsed,) = yaml_files.parse_yaml(text, Path(fairlead_yaml.FILE))
    fairlead_yaml.parse(parsed)
    return Conversion(
        settings=settings,
        text=text,
        next_steps=tuple(pools.next_steps),
        differences=tuple(findings.differences),
        assumptions=tuple(findings.assumptions),
        not_taken_over=tuple(findings.not_taken_over),
    )


def _settings(findings: Findings, pools: Pools, progress: Progress) -> dict[str, Any]:
    settings = pools.settings()
    builtin = {intent.name: intent for intent in intents.in_folder(intents.builtin_folder())}
    entries: dict[str, Any] = dict(settings.pop("intents", {}))
    enforcement: dict[str, str] = {}
    for instance in _valid(findings, builtin, progress):
        name = _name_of(instance, builtin, entries)
        entries[name] = _instance(instance, name)
        if instance.mode == "warn":
            enforcement[name] = "warn"
    return {
        **settings,
        **({"intents": entries} if entries else {}),
        **({"enforcement": enforcement} if enforcement else {}),
    }


def _valid(findings: Findings, builtin: Mapping[str, Intent], progress: Progress) -> list[Instance]:
    """The instances whose parameters the intents take; the findings say what is wrong with the
    others.
    """
    mistakes: dict[int, list[Mistake]] = {}
    numbered: list[tuple[int, Given]] = []
    for number, instance in enumerate(findings.instances):
        intent = builtin[instance.intent]
        mistakes[number] = intent.problems(instance.parameters)
        if not mistakes[number]:
            parameters = intent.parameters(instance.parameters)
            numbered.append((number, Given(str(number), intent, parameters)))
    for broken, mistake in parameter_rules.broken([instance for _, instance in numbered], progress):
        mistakes[int(broken.name)].append(mistake)
    for number, instance in enumerate(findings.instances):
        if mistakes[number]:
            texts = "; ".join(mistake.text for mistake in mistakes[number])
            findings.leave_out(instance.origin, f"{instance.intent} does not take {texts}")
    return [instance for number, instance in enumerate(findings.instances) if not mistakes[number]]


def _name_of(instance: Instance, builtin: Mapping[str, Intent], entries: Mapping[str, Any]) -> str:
    """The name of the constraint as that of an instance, which no other one has."""
    words = re.findall(r"[a-z0-9]+", instance.name.lower())
    base = "-".join(words)[:_LONGEST].strip("-")
    foreign = base in builtin and base != instance.intent
    if foreign or not base[:1].isalpha() or intents.name_problem(base.replace("-", "_")):
        base = f"{instance.intent}-{base}".strip("-")
    name, number = base, 1
    while name in entries:
        number += 1
        name = f"{base}-{number}"
    return name


def _instance(instance: Instance, name: str) -> dict[str, Any]:
    namespaces = instance.namespaces.model_dump(by_alias=True, exclude_defaults=True)
    exempt = instance.exempt.model_dump(by_alias=True, exclude_defaults=True)
    return {
        **({"intent": instance.intent} if name != instance.intent else {}),
        **({"enabled": False} if instance.mode is None else {}),
        "parameters": dict(instance.parameters),
        **({"namespaces": namespaces} if namespaces else {}),
        **({"exempt": exempt} if exempt else {}),
    }


def _text(settings: Mapping[str, Any], pools: Pools, findings: Findings) -> str:
    """The file, with what is left to do as comments."""
    left_out = [
        f"{refusal.origin.source}: {refusal.origin.object}: {refusal.reason}"
        for refusal in findings.not_taken_over
    ]
    comments = ["Made by `fairlead convert`."]
    for title, lines in (
        ("Then run:", pools.next_steps),
        ("Not taken over:", left_out),
        ("Fairlead does differently:", findings.differences),
        ("Taken for granted:", findings.assumptions),
    ):
        if lines:
            comments += ["", title, *(f"  {printable(line)}" for line in lines)]
    head = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    return head + yaml_texts.written(dict(settings), width=100)

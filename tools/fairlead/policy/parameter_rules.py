"""Checks parameters of intents against the rules in their schemas that JSON Schema cannot express
(`x-kubernetes-validations`), by the code of API servers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.common import mistakes
from fairlead.common.mistakes import Location, Mistake
from fairlead.common.progress import Progress
from fairlead.policy.fairlead_yaml import Given, Rules
from fairlead.policy.intents import Intent
from fairlead.programs import matcher

RULES = "x-kubernetes-validations"

# A part of a path in an API server's message: `.name`, `[0]`, or `[name]` of a map.
_PART = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]|\[([^\]]*)\]")


def rules(progress: Progress) -> Rules:
    """What checks the parameters of settings that are read; see `broken`. It raises FairleadError
    if the program that evaluates the rules cannot be built.
    """
    return functools.partial(broken, progress=progress)


def broken(instances: Sequence[Given], progress: Progress) -> Iterator[tuple[Given, Mistake]]:
    """The rules that do not hold, each with where. Runs no program if there are no rules."""
    ruled = [
        instance for instance in instances if _has_rules(instance.intent.facts.parameters_schema)
    ]
    if not ruled:
        return
    judgements = _judge([(instance.intent, instance.parameters) for instance in ruled], progress)
    for instance, judgement in zip(ruled, judgements, strict=True):
        for problem in (*judgement["schema"], *judgement["value"]):
            yield instance, _mistake(problem)


def unstructural(intents: Iterable[Intent], progress: Progress) -> Iterator[tuple[Intent, Mistake]]:
    """What keeps API servers from taking the schema of the parameters for a custom resource, and
    the rules that the example of the parameters breaks.
    """
    parametrised = [intent for intent in intents if intent.facts.parameters]
    if not parametrised:
        return
    examples = [(intent, intent.example()) for intent in parametrised]
    for intent, judgement in zip(parametrised, _judge(examples, progress), strict=True):
        for problem in (*judgement["schema"], *judgement["value"]):
            yield intent, _mistake(problem)


def structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of parameters as that of a custom resource. API servers refuse unknown fields by
    themselves, and know no examples.
    """
    result = {key: value for key, value in schema.items() if key != "examples"}
    if result.get("additionalProperties") is False:
        del result["additionalProperties"]
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = structural(result[key])
    if isinstance(result.get("properties"), dict):
        result["properties"] = {k: structural(v) for k, v in result["properties"].items()}
    return result


def _judge(
    questions: Sequence[tuple[Intent, Mapping[str, Any]]], progress: Progress
) -> list[dict[str, Any]]:
    queries = [
        {"schema": structural(intent.facts.parameters_schema), "value": dict(parameters)}
        for intent, parameters in questions
    ]
    answers = matcher.ask({"parameters": queries}, progress)["parameters"]
    return [{key: answer[key] or [] for key in ("schema", "value")} for answer in answers]


def _mistake(problem: Mapping[str, str]) -> Mistake:
    location = _location(problem["path"])
    return Mistake(location, f"{mistakes.path(location)}: {problem['message']}")


def _location(path: str) -> Location:
    return tuple(int(index) if index else name or key for name, index, key in _PART.findall(path))


def _has_rules(schema: Any) -> bool:
    if isinstance(schema, dict):
        return RULES in schema or any(map(_has_rules, schema.values()))
    return False

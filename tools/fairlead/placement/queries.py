"""Answers questions about where applications and pods run, by `opa eval`, for `fairlead query`. A
question is a module in policies/visibility, which says in its METADATA what it takes."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import metadata, policy_files
from fairlead.policy.metadata import PackageMetadata
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

_PREFIX = f"{policy_files.QUERIES}."


@dataclass(frozen=True)
class Argument:
    """What a query takes: its `type` is `string` or `number`."""

    name: str
    type: str
    description: str
    required: bool

    def parse(self, text: str) -> str | float:
        """The value that this text means. Raises UsageError for anything but a number."""
        if self.type != "number":
            return text
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"--arg {self.name}={text}: a number is expected, such as 0.03")
        return number


@dataclass(frozen=True)
class Query:
    """A question that can be asked by its name. `columns` are the keys of each row of the answer.
    `about_placement` says whether it reads the data of clusters and customers.
    """

    name: str
    title: str
    description: str
    arguments: tuple[Argument, ...]
    columns: tuple[str, ...]
    about_placement: bool
    package: str

    @property
    def usage(self) -> str:
        """The arguments as one writes them; those in brackets may be left out."""
        words = (f"--arg {argument.name}={argument.type.upper()}" for argument in self.arguments)
        return " ".join(
            word if argument.required else f"[{word}]"
            for argument, word in zip(self.arguments, words, strict=True)
        )

    def input(self, texts: Sequence[str]) -> dict[str, Any]:
        """OPA's input, of arguments that are written `name=value`. Raises UsageError."""
        by_name = {argument.name: argument for argument in self.arguments}
        values: dict[str, Any] = {}
        for text in texts:
            name, separator, value = text.partition("=")
            if not separator:
                raise UsageError(f"--arg {text}: write it as NAME=VALUE")
            if name not in by_name:
                raise UsageError(f"{self.name} takes no argument {name!r}: {self._advice}")
            if name in values:
                raise UsageError(f"--arg {name} is given twice: keep one")
            values[name] = by_name[name].parse(value)
        missing = [
            argument.name
            for argument in self.arguments
            if argument.required and argument.name not in values
        ]
        if missing:
            raise UsageError(f"{self.name} lacks {', '.join(missing)}: {self._advice}")
        return values

    @property
    def _advice(self) -> str:
        command = " ".join(filter(None, (self.name, self.usage)))
        return f"write `fairlead query {command} -f FILE`"


@dataclass(frozen=True)
class Answer:
    """The rows of an answer, sorted, and sentences about what the answer does not rest upon."""

    rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str]


def policies(settings: Settings, folder: Path | None = None) -> PolicySet:
    """The policies that answer, with all queries. They are those of `folder`, if it has a
    main.rego, or the checkout's. Raises InputError, UsageError.
    """
    with_placement = settings.model_copy(update={"placement": True})
    return PolicySet.load(with_placement, folder, further=[policy_files.QUERIES])


def known(policies: PolicySet) -> list[Query]:
    """All queries among the policies, by name. Raises InputError for METADATA that are not YAML."""
    queries = []
    for key, text in sorted(policies.modules.items()):
        if key.startswith(_PREFIX):
            described = metadata.of(text, policies.sources.get(key, key))
            if described:
                queries.append(_query(described))
    return queries


def named(name: str, queries: Sequence[Query]) -> Query:
    """The query of this name. Raises UsageError for none."""
    by_name = {query.name: query for query in queries}
    if name in by_name:
        return by_name[name]
    close = difflib.get_close_matches(name, by_name, n=1)
    advice = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(by_name)}"
    raise UsageError(f"no query {name!r}: {advice} `fairlead query --list` shows all")


def ask(
    query: Query,
    arguments: Mapping[str, Any],
    *,
    policies: PolicySet,
    inventory: Mapping[str, Any],
    placement: Any = None,
    progress: Progress,
) -> Answer:
    """The answer to a query.

    Args:
        arguments: the values by their names, from Query.input.
        inventory: the objects by their clusters, see object_trees; those of "" are of no cluster.
        placement: the clusters and customers, for queries about placement.

    Raises UsageError if the question makes no sense, such as about an unknown cluster, or if there
    are objects of one, and FairleadError if OPA fails.
    """
    if placement is not None:
        _require_known(inventory, placement)
    parts = (
        f'"{part}": [value | some value in data.{query.package}.{part}]'
        for part in ("rows", "notes", "problems")
    )
    answer = cli.evaluate(
        f"{{{', '.join(parts)}}}",
        modules=policies.modules,
        data={"inventory": inventory, **({} if placement is None else {"placement": placement})},
        input=dict(arguments),
        progress=progress,
    )
    if answer["problems"]:
        raise UsageError("; ".join(answer["problems"]))
    rows = sorted(answer["rows"], key=lambda row: [_order(row[key]) for key in query.columns])
    return Answer(rows, answer["notes"])


def _require_known(inventory: Mapping[str, Any], placement: Any) -> None:
    """The objects of a misspelt cluster would be in no answer. Raises UsageError."""
    clusters = placement.get("clusters") if isinstance(placement, dict) else None
    unknown = sorted({*inventory} - {"", *(clusters or ())})
    if unknown:
        raise UsageError(
            f"--member {unknown[0]}: placement.clusters of the data has no such cluster: write its "
            "name as it is there, or add it"
        )


def _order(value: Any) -> tuple[bool, str]:
    return value is not None, str(value)


def _query(described: PackageMetadata) -> Query:
    annotations = described.annotations
    schemas = {
        path: schema
        for schema_of in annotations.get("schemas", ())
        for path, schema in schema_of.items()
    }
    input_schema = schemas["input"]
    return Query(
        name=described.package.removeprefix(_PREFIX).replace("_", "-"),
        title=str(annotations["title"]),
        description=" ".join(str(annotations.get("description", "")).split()),
        arguments=tuple(
            Argument(
                name,
                schema["type"],
                schema["description"],
                name in input_schema.get("required", ()),
            )
            for name, schema in input_schema.get("properties", {}).items()
        ),
        columns=tuple(annotations["custom"]["columns"]),
        about_placement="data.placement" in schemas,
        package=described.package,
    )

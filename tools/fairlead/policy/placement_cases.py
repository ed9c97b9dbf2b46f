"""Reads the cases of placement over clusters: each is one question to `data.k8s.placement`, with
the answer that it must get. The format is described in docs/conformance.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.policy import cases, policy_files
from fairlead.policy.cases import PLACEMENT


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


_NONE: Mapping[str, Any] = {"replica-set-preferences": {"clusters": {}}}


class Expect(_Strict):
    """The expected answer. `annotations` and the keys of `errors` are the whole of it. Of the
    sentences, a part suffices: each of `errors` in one of its own, those of `explanation` by
    cluster, of which some may be left out.
    """

    annotations: dict[str, Any] = dict(_NONE)
    errors: dict[str, list[str]] = {}
    explanation: dict[str, str] = {}


class _Data(_Strict):
    """What OPA has: `placement`, and `kubernetes` for the namespaces."""

    placement: Any = None
    kubernetes: dict[str, Any] = {}


class _Written(_Strict):
    """A case as it is written. `data` may be the name of a file that has them, beside this one."""

    name: str
    intent: Literal["placement"]
    data: str | _Data
    resource: Any
    expect: Expect


@dataclass(frozen=True)
class PlacementCase:
    """One case. `data` has what OPA has, at the top of its data. `path` and `line` are where it
    begins.
    """

    name: str
    data: Mapping[str, Any]
    resource: Any
    expect: Expect
    path: Path
    line: int
    intent: str = PLACEMENT


def load(path: Path | None = None, folder: Path | None = None) -> list[PlacementCase]:
    """The cases of a file or folder, without those of intents; if `path` is None, those in
    testdata/cases/placement, unless the policies in `folder` have no placement. Raises InputError
    with file and line for an invalid case, and for a name that is used twice.
    """
    if path is None and not ((folder or policy_files.builtin()) / "placement").is_dir():
        return []
    by_name: dict[str, PlacementCase] = {}
    for source in cases.in_path(path or paths.root() / "testdata" / "cases" / "placement"):
        for document in cases.listed(source):
            if not cases.is_of_placement(document):
                continue
            case = _case(document)
            if case.name in by_name:
                twin = by_name[case.name]
                raise InputError(
                    f"{case.path}:{case.line}",
                    f"the name {case.name!r} is used at {twin.path}:{twin.line}, too: names are "
                    "unique",
                )
            by_name[case.name] = case
    return list(by_name.values())


def _case(document: yaml_files.Document) -> PlacementCase:
    raw = document.parse(_Written)
    if isinstance(raw.data, str):
        data = yaml_files.read_yaml(document.path.parent / raw.data)[0].value
    else:
        data = document.value["data"]
    line = document.line(["name"]) or 1
    return PlacementCase(raw.name, data, raw.resource, raw.expect, document.path, line)

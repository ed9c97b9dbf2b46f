"""Decides which policies and documents must not reach OPA, and words errors in the form that OPA
and kube-mgmt use.

{"code", "message", "errors": [{"code", "message", "location": {"file", "row", "col"}}]}, where
"errors" may be missing
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from fairlead.opa.errors import describe
from fairlead.policy import data_places

Problem = dict[str, Any]

OPAS_OWN = ("authz", "log")
"""The packages below `system` by which OPA protects itself: the first comes from a file."""
FROM_FILES = (
    "policies of the package system.{} come from OPA's own file and are never loaded "
    "from "
    "a ConfigMap"
)
SYSTEM = (
    "documents below `system` decide who may use OPA's API and are never loaded from a ConfigMap"
)
OWNED = (
    "rules of the package system are what OPA decides by, and come from the ConfigMap {} "
    "alone: move them there"
)
HIDING = "rules at data.{} would hide what is replicated there: choose another package"
OF_DATA = "package {0} would hide the data that Fairlead reads at data.{0}: choose another package"
_AS_JSON = "data has to be JSON, whatever the key ends with"
_CONFLICTS = ("multiple default rules ", " conflicts with", "conflicting rules ")
CHECKED = 200_000
"""The most characters of a policy whose rules OPA lists before it is loaded. Listing a megabyte
took more than 30 s."""

_PACKAGE = re.compile(r"(?:[\s\ufeff]|#[^\n]*+)*+package(?:\s|#[^\n]*+)++(\w+)")
_NAMES = "|".join(OPAS_OWN)
_OWN_PACKAGE = re.compile(
    rf"^[ \t]*package\s+system\s*(?:\.\s*({_NAMES})\b|\[\s*[\"`]({_NAMES})[\"`]\s*\])", re.MULTILINE
)


def problem(
    code: str, message: str, file: str, row: int | None = None, col: int | None = None
) -> Problem:
    """A problem found here rather than by OPA; `row` and `col` count from 1."""
    if row is None:
        return {"code": code, "message": f"{file}: {message}"}
    location = {"file": file, "row": row, "col": col or 1}
    return {
        "code": code,
        "message": f"{file}:{row}: {message}",
        "errors": [{"code": code, "message": message, "location": location}],
    }


def of_policy(id_: str, text: str) -> Problem | None:
    """Why a policy must not be sent to OPA, as far as its text shows; None if it may."""
    if match := _OWN_PACKAGE.search(text):
        return problem(
            "forbidden_package",
            FROM_FILES.format(match[1] or match[2]),
            id_,
            text.count("\n", 0, match.start()) + 1,
        )
    return None


def of_package(
    id_: str, text: str, *, system: str | None, replicated: Sequence[Sequence[str]]
) -> Problem | None:
    """Why a policy must not be loaded, by its package; None if its package allows that.

    `system` is the only ConfigMap (<namespace>/<configmap>) that may define the package system,
    None for any. `replicated` are the paths in data that no rule may hide. The first part of a
    package always stands literally at its beginning.
    """
    match = _PACKAGE.match(text)
    if match is None:
        return None
    root, row = match[1], _row(text, match.start(1))
    if root in data_places.ROOTS:
        # Not by its rules: data.placement is an object as soon as a package without any is there.
        return problem("forbidden_package", OF_DATA.format(root), id_, row)
    if root == "system" and system and id_.rpartition("/")[0] != system:
        return problem("forbidden_package", OWNED.format(system), id_, row)
    if len(text) > CHECKED and may_hide(text, replicated):
        message = (
            "is too large to be checked for rules that are not allowed in the package "
            f"{root}: split it"
        )
        return problem("too_large", message, id_, row)
    return None


def may_hide(text: str, replicated: Sequence[Sequence[str]]) -> bool:
    """Whether a policy may define what is Fairlead's or replicated, which only its rules can show.

    The later parts of a package, and rules, can be spelt in many ways, which only OPA can parse.
    """
    match = _PACKAGE.match(text)
    root = match[1] if match else None
    names = (
        set(OPAS_OWN) if root == "system" else {path[-1] for path in replicated if path[0] == root}
    )
    return bool(names) and any(name in text for name in {*names, "\\u"})


def of_rules(
    id_: str, text: str, rules: Sequence[Sequence[Any]] | None, replicated: Sequence[Sequence[str]]
) -> Problem | None:
    """Why a policy must not be loaded, by the paths that its rules define; None if it may.

    OPA lists the paths, so their spelling in the text does not matter.
    """
    match = _PACKAGE.match(text)
    row = _row(text, match.start(1)) if match else 1
    for path in rules or ():
        if path[:2] == ["data", "system"] and path[2:3] and path[2] in OPAS_OWN:
            return problem("forbidden_package", FROM_FILES.format(path[2]), id_, row)
        for hidden in replicated:
            shared = min(len(path) - 1, len(hidden))
            if path[1 : 1 + shared] == list(hidden[:shared]):
                return problem("forbidden_package", HIDING.format(".".join(hidden)), id_, row)
    return None


def of_place(id_: str, replicated: Sequence[Sequence[str]]) -> Problem | None:
    """Why a document must not be loaded, by its path in data; None if it may."""
    path = id_.split("/")
    for store_path in replicated:
        if path[: len(store_path)] == list(store_path[: len(path)]):
            return problem(
                "forbidden_path",
                f"objects are replicated to {'/'.join(store_path)}: choose another name",
                id_,
            )
    return None


def conflicts(error: Problem) -> bool:
    """Whether OPA rejected a policy because of rules that it holds already."""
    return any(word in describe(error) for word in _CONFLICTS)


def renamed(error: Problem, before: str, after: str) -> Problem:
    """A problem with the id of its policy replaced everywhere."""
    copy: Problem = json.loads(
        json.dumps(error).replace(json.dumps(before)[1:-1], json.dumps(after)[1:-1])
    )
    return copy


def of_document(id_: str, text: str) -> Problem | None:
    """Why a document must not be sent to OPA: its path, or it is not JSON (RFC 8259, so without
    NaN); None if it may.
    """
    if id_.startswith("system/"):
        return problem("forbidden_path", SYSTEM, id_)
    try:
        json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        hint = f" ({_AS_JSON})" if id_.endswith((".yaml", ".yml")) else ""
        message = f"is not JSON: {error.msg}{hint}"
        return problem("invalid_json", message, id_, error.lineno, error.colno)
    except RecursionError:
        return problem("invalid_json", "is nested too deeply", id_)
    except ValueError as error:
        return problem("invalid_json", f"is not JSON: {error}", id_)
    return None


def of_answer(id_: str, error: Problem) -> Problem:
    """OPA's own error about a document, with the document's name, which OPA leaves out."""
    return {**error, "message": f"{id_}: {error.get('message', 'no reason given')}"}


def of_bytes(id_: str) -> Problem:
    """The problem of any key of binaryData."""
    return problem(
        "invalid_utf8",
        "is not UTF-8 text (the ConfigMap has it in binaryData): store it as text in data",
        id_,
    )


def _row(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")

"""What is wrong with a policy or document, in the form that OPA and kube-mgmt give it.

{"code", "message", "errors": [{"code", "message", "location": {"file", "row", "col"}}]}, where "errors" may be missing
"""

from __future__ import annotations

import json
import re
from typing import Any

Problem = dict[str, Any]

AUTHZ = "policies of the package system.authz come from OPA's own file and are never loaded from a ConfigMap"
SYSTEM = "documents below `system` decide who may use OPA's API and are never loaded from a ConfigMap"
_AUTHZ_PACKAGE = re.compile(r"^[ \t]*package\s+system\s*(\.\s*authz\b|\[\s*[\"`]authz[\"`]\s*\])", re.MULTILINE)
_PATH_OF_AUTHZ = ["data", "system", "authz"]


def problem(code: str, message: str, file: str, row: int | None = None, col: int | None = None) -> Problem:
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
    """What keeps a policy from being sent to OPA, as far as its text shows it."""
    if match := _AUTHZ_PACKAGE.search(text):
        return problem("forbidden_package", AUTHZ, id_, text.count("\n", 0, match.start()) + 1)
    return None


def of_rules(id_: str, rules: list[list[Any]] | None) -> Problem | None:
    """What keeps a policy from being loaded, by the paths that it defines: however they are spelt."""
    if any(path[:3] == _PATH_OF_AUTHZ for path in rules or ()):
        return problem("forbidden_package", AUTHZ, id_)
    return None


def of_document(id_: str, text: str) -> Problem | None:
    """What keeps a document from being sent to OPA: its place, or it is no JSON (RFC 8259, so no NaN either)."""
    if id_.startswith("system/"):
        return problem("forbidden_path", SYSTEM, id_)
    try:
        json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        return problem("invalid_json", f"is not JSON: {error.msg}", id_, error.lineno, error.colno)
    except RecursionError:
        return problem("invalid_json", "is nested too deeply", id_)
    except ValueError as error:
        return problem("invalid_json", f"is not JSON: {error}", id_)
    return None


def of_answer(id_: str, error: Problem) -> Problem:
    """OPA's own error about a document, with the document's name, which OPA leaves out."""
    return {**error, "message": f"{id_}: {error.get('message', 'no reason given')}"}


def of_bytes(id_: str) -> Problem:
    """What is said about a key of binaryData."""
    return problem(
        "invalid_utf8", "is not UTF-8 text (the ConfigMap has it in binaryData): store it as text in data", id_
    )


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")

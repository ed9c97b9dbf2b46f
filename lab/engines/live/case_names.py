"""What the conditions in an intent's files for engines see of a case."""

from __future__ import annotations

from typing import Any

from fairlead.policy.cases import Case


def of(case: Case) -> dict[str, Any]:
    """The request and the namespace, by their names."""
    request, namespace = case.request, case.namespace
    return {
        "request": {
            **request.model_dump(by_alias=True, exclude={"object", "old_object"}),
            "object": request.object,
            "oldObject": request.old_object,
            "kind": request.manifest["kind"],
        },
        "namespace": namespace.model_dump() if namespace else {"name": "", "labels": {}},
    }

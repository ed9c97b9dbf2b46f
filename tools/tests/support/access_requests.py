"""Asks the policies of transient access, at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairlead.opa import cli
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

MODULES = PolicySet.load(Settings(access=Access())).modules
_MODULE = """
package asked

answers := [answer |
    some question in data.questions
    answer := data.controller with input as question.request with time.now_ns as question.now
]

parts := [part |
    some question in data.questions
    part := _parts with input as question.request with time.now_ns as question.now
]

_parts[name] := value if {
    some name in ["children", "status", "resync_after_seconds", "unreadable"]
    value := data.lib.transient_access[name]
}
"""
Question = dict[str, Any]
"""{request, now}: what a sync hook is sent, and when, in nanoseconds since 1970."""


def answers(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """What callers get for each question. Raises FairleadError if one of them gets an error."""
    return list(_asked("answers", questions))


def parts(questions: Sequence[Question]) -> list[dict[str, Any]]:
    """What the decision on each question consists of; `unreadable` is why there is none."""
    return list(_asked("parts", questions))


def _asked(rule: str, questions: Sequence[Question]) -> Any:
    return cli.evaluate(
        f"data.asked.{rule}",
        modules={**MODULES, "asked.rego": _MODULE},
        data={"questions": list(questions)},
    )


def brief(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer in the form of access_oracle.answer, which has no messages."""
    return {
        "children": answer["children"],
        "resync": float(answer["resyncAfterSeconds"]),
        "conditions": [
            tuple(condition[key] for key in ("type", "status", "reason", "lastTransitionTime"))
            for condition in answer["status"]["conditions"]
        ],
    }


def request(**spec: Any) -> dict[str, Any]:
    """The first request about a TransientRoleBinding with this spec, which has a window of an hour
    from 2026-11-21T10:00:00Z otherwise.
    """
    return {
        "controller": {
            "spec": {
                "generateSelector": True,
                "childResources": [
                    {"apiVersion": "rbac.authorization.k8s.io/v1", "resource": "rolebindings"}
                ],
            }
        },
        "parent": {
            "apiVersion": "access.fairlead.dev/v1",
            "kind": "TransientRoleBinding",
            "metadata": {"name": "night", "namespace": "shop", "uid": "u-1", "generation": 1},
            "spec": {
                "validFrom": "2026-11-21T10:00:00Z",
                "validUntil": "2026-11-21T11:00:00Z",
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "view",
                },
                "subjects": [{"kind": "User", "name": "alice"}],
                **spec,
            },
        },
        "children": {"RoleBinding.rbac.authorization.k8s.io/v1": {}},
        "related": {},
        "finalizing": False,
    }

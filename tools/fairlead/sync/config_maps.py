"""What the sidecar keeps of a ConfigMap with policies or data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairlead.deployment.names import REPLICA_STATUS, RETRIES, STATUS
from fairlead.policy.revision import fingerprint
from fairlead.sync import policy_problems
from fairlead.sync.policy_problems import Problem

Kind = Literal["policies", "data", "namespaces", "objects"]
Owner = tuple[str, str]
"""The namespace and name of a ConfigMap."""
Item = tuple[Literal["policy", "document"], str]
"""What OPA holds of a ConfigMap's key, by <namespace>/<configmap>/<key>."""
Annotations = dict[str, str | None]
"""Changes of annotations; None removes one."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The problems of a ConfigMap whose data have this fingerprint; an empty tuple if it is
    fine.
    """

    fingerprint: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """The parts of a labelled ConfigMap that the sidecar needs.

    `fingerprint` identifies its data (see fairlead.policy.revision), so that a status says which
    content it is about. `annotations` are those with a status.
    """

    owner: Owner
    kind: Kind
    texts: Mapping[str, str]
    problems: Mapping[str, Problem]
    fingerprint: str
    resource_version: str = field(compare=False)
    annotations: Mapping[str, str] = field(compare=False)

    def item(self, key: str) -> Item:
        """The item that OPA holds for `key`."""
        return "document" if self.kind == "data" else "policy", "/".join((*self.owner, key))


def read(owner: Owner, kind: Kind, value: Mapping[str, Any]) -> ConfigMap:
    """Read the needed parts of a ConfigMap from the API's JSON."""
    texts: dict[str, str] = {}
    problems: dict[str, Problem] = {}
    check = policy_problems.of_policy if kind == "policies" else policy_problems.of_document
    for key, text in sorted((value.get("data") or {}).items()):
        trouble = check("/".join((*owner, key)), text)
        if trouble:
            problems[key] = trouble
        else:
            texts[key] = text
    for key in sorted(value.get("binaryData") or {}):
        problems[key] = policy_problems.of_bytes("/".join((*owner, key)))
    metadata = value["metadata"]
    annotations = {
        key: text
        for key, text in (metadata.get("annotations") or {}).items()
        if key == STATUS
        or key.startswith(REPLICA_STATUS)
        or (key == RETRIES and kind == "policies")
    }
    return ConfigMap(
        owner, kind, texts, problems, _of(value), metadata.get("resourceVersion", ""), annotations
    )


def _of(value: Mapping[str, Any]) -> str:
    """The fingerprint of a ConfigMap's data and binaryData."""
    return fingerprint({**(value.get("data") or {}), **(value.get("binaryData") or {})})

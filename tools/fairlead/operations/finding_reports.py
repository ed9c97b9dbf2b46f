"""Writes findings as Reports (openreports.io), one for each namespace and intent; as PolicyReports
(wgpolicyk8s.io) where a cluster has only these. Findings about objects without a namespace are in a
ClusterReport.

Source of the fields: the APIs openreports.io/v1alpha1 and wgpolicyk8s.io/v1alpha2, which agree in
those that are written here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlead.common.digests import digest
from fairlead.deployment import ownership
from fairlead.kube import clients
from fairlead.kube.stored_fields import FIELD_MANAGER

Api = tuple[str, str, str]
"""An API of reports: its version, and its kinds with and without a namespace."""
FAIL, WARN = "fail", "warn"
"""The results: what the policies refuse or lack, and what they only warn of."""
MOST = 200
"""The most findings of a Report."""
KINDS: tuple[Api, ...] = (
    ("openreports.io/v1alpha1", "Report", "ClusterReport"),
    ("wgpolicyk8s.io/v1alpha2", "PolicyReport", "ClusterPolicyReport"),
)
"""The preferred one first."""
FURTHER = "fairlead.dev/further-findings"
"""The annotation with the number of findings that a Report has no room for."""
_DIGEST = "fairlead.dev/digest"
"""The annotation by which a Report is known to be as it should be."""
_SOURCE, _PREFIX = "fairlead", "fairlead-"
_MANAGED_BY = "app.kubernetes.io/managed-by"
_LONGEST = 1000
"""The most characters of a message."""

Key = tuple[str, str]
"""A namespace, empty for objects without one, and an intent."""


@dataclass(frozen=True)
class Finding:
    """What is wrong with an object, by an intent. `result` is FAIL or WARN."""

    namespace: str
    intent: str
    result: str
    api_version: str
    kind: str
    name: str
    message: str


@dataclass
class Collected:
    """All findings as numbers, and the first MOST of each Report."""

    counts: dict[Key, Counter[str]] = field(default_factory=dict)
    first: dict[Key, list[Finding]] = field(default_factory=dict)

    def add(self, finding: Finding) -> None:
        """Take one more."""
        key = finding.namespace, finding.intent
        self.counts.setdefault(key, Counter())[finding.result] += 1
        first = self.first.setdefault(key, [])
        if len(first) < MOST:
            first.append(finding)


def write(objects: clients.Objects, collected: Collected) -> None:
    """Have the cluster's Reports say what was found: write those that change, and delete those
    without a finding. Does nothing in a cluster without such kinds. Raises ApiServerError.
    """
    api = next((each for each in KINDS if _is_served(objects, each)), None)
    if api is None:
        return
    reports = [
        _report(api, namespace, intent, findings, collected.counts[namespace, intent])
        for (namespace, intent), findings in collected.first.items()
    ]
    present = {_key(report): report for report in _present(objects, api)}
    for report in reports:
        if not _is_as_written(present.pop(_key(report), None), report):
            objects.apply(report)
    for of_kind, namespace, name in present:
        objects.delete(api[0], of_kind, name, namespace or None)


def remove(objects: clients.Objects) -> list[dict[str, Any]]:
    """Delete all Reports of Fairlead; returns them. Raises ApiServerError."""
    removed = []
    for api in KINDS:
        for report in _present(objects, api) if _is_served(objects, api) else ():
            kind, namespace, name = _key(report)
            objects.delete(api[0], kind, name, namespace or None)
            removed.append(report)
    return removed


def _is_served(objects: clients.Objects, api: Api) -> bool:
    return objects.serves({"apiVersion": api[0], "kind": api[1]})


def _present(objects: clients.Objects, api: Api) -> Iterator[dict[str, Any]]:
    """The metadata of Fairlead's Reports in the cluster."""
    version, *kinds = api
    for kind in kinds:
        path = f"/apis/{version}/{kind.lower()}s"
        selector = {"labelSelector": f"{ownership.SELECTOR},{_MANAGED_BY}={_SOURCE}"}
        for stored in objects.collection(path, selector, metadata_only=True):
            if stored["metadata"]["name"].startswith(_PREFIX):
                yield {**stored, "kind": kind}


def _key(report: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = report["metadata"]
    return report["kind"], metadata.get("namespace", ""), metadata["name"]


def _is_as_written(stored: Mapping[str, Any] | None, report: Mapping[str, Any]) -> bool:
    """Whether a Report says the same, and nobody else has written into it."""
    if stored is None:
        return False
    metadata = stored["metadata"]
    managers = {entry["manager"] for entry in metadata.get("managedFields") or ()}
    written = (metadata.get("annotations") or {}).get(_DIGEST)
    return bool(
        managers == {FIELD_MANAGER} and written == report["metadata"]["annotations"][_DIGEST]
    )


def _report(
    api: Api,
    namespace: str,
    intent: str,
    findings: list[Finding],
    counts: Mapping[str, int],
) -> dict[str, Any]:
    version, kind, cluster_kind = api
    content = {
        "summary": {"pass": 0, FAIL: counts[FAIL], WARN: counts[WARN], "error": 0, "skip": 0},
        "results": [
            {
                "source": _SOURCE,
                "policy": intent,
                "result": finding.result,
                "scored": finding.result == FAIL,
                "message": finding.message[:_LONGEST],
                "resources": [
                    {
                        "apiVersion": finding.api_version,
                        "kind": finding.kind,
                        "name": finding.name,
                        **({"namespace": namespace} if namespace else {}),
                    }
                ],
            }
            for finding in findings
        ],
    }
    further = sum(counts.values()) - len(findings)
    annotations = {
        _DIGEST: digest(json.dumps([content, further], sort_keys=True).encode()),
        **({FURTHER: str(further)} if further else {}),
    }
    return {
        "apiVersion": version,
        "kind": kind if namespace else cluster_kind,
        "metadata": {
            "name": f"{_PREFIX}{intent}",
            **({"namespace": namespace} if namespace else {}),
            "labels": ownership.labels({_MANAGED_BY: _SOURCE}),
            "annotations": annotations,
        },
        **content,
    }

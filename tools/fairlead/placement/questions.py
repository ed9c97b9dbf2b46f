"""What OPA is asked about objects, and how its answers are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import FairleadError
from fairlead.common.yaml_files import Document
from fairlead.placement import autoscalers, manifest_kinds, placements
from fairlead.placement.autoscalers import Autoscaler
from fairlead.placement.manifest_kinds import Sorted
from fairlead.placement.placements import ANNOTATION, Placement

RULES = """
import data.lib.placement_questions as questions
import data.lib.webster

decisions(asked) := [decided |
	some question in asked
	name := object.get(question.resource, ["metadata", "namespace"], "default")
	namespaces := {name: namespace | namespace := data.kubernetes.namespaces[name]}
	decision := questions.decision(question.resource, namespaces)
	decided := object.union(decision, {"most": most_of(question, decision)})
]

# The most replicas of each cluster, if an autoscaler sets them.
most_of(question, decision) := webster.divided(question.most, {name: preference.weight |
	some answer in decision.answer
	some name, preference in answer.annotations["replica-set-preferences"].clusters
}) if {
	question.most
} else := {}
"""
"""Rego for the decisions about questions, for modules of one's own."""
MODULE = f"""
package fairlead_placements
{RULES}
answers := decisions(data.fairlead_questions)
"""


@dataclass(frozen=True)
class Question:
    """What OPA is asked about an object: its manifest as `resource`, and the autoscaler that sets
    its replicas, if it has one.
    """

    document: Document
    resource: Mapping[str, Any]
    autoscaler: Autoscaler | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The question as the Rego takes it."""
        most = {"most": self.autoscaler.most[1]} if self.autoscaler else {}
        return {"resource": self.resource, **most}

    def read(self, decided: Mapping[str, Any]) -> Placement:
        """What OPA decided. Raises FairleadError if there is no answer."""
        if not decided["answer"]:
            raise FairleadError("the policies give no answer (data.k8s.placement is undefined)")
        (answer,) = decided["answer"]
        preferences = answer["annotations"]["replica-set-preferences"]["clusters"]
        weights = {name: preference["weight"] for name, preference in sorted(preferences.items())}
        is_daemon_set = manifest_kinds.kind_of(self.document.value) == ("apps", "DaemonSet")
        return Placement(
            self.document,
            weights,
            {name: decided["replicas"][name] for name in weights},
            answer["errors"],
            answer["explanation"],
            # Nobody knows how many nodes a cluster has.
            {} if is_daemon_set else placements.costs_of(decided["costs"]),
            fields={name: self._fields(decided["fields"][name]) for name in weights},
            customer=next((str(name) for name in decided["customer"]), None),
            lawful=frozenset(decided["lawful"]),
            most=decided["most"],
            notes=[self.autoscaler.note] if self.autoscaler else [],
        )

    def _fields(self, fields: Mapping[str, int]) -> Mapping[str, int | None]:
        """The fields of the spec that a cluster gets. An autoscaler sets the replicas itself."""
        if self.autoscaler is None:
            return fields
        written = "replicas" in manifest_kinds.mapping(self.document.value.get("spec"))
        return {"replicas": None} if written else {}


def about_workloads(
    parts: Sorted,
    *,
    running: Mapping[str, Mapping[str, float]],
    moves_volumes: bool = False,
) -> list[Question]:
    """A question about each workload. `running` are the weights of the clusters where they run, by
    their titles.
    """
    by_target = autoscalers.of(parts.others)
    asked = []
    for document in parts.workloads:
        autoscaler = by_target.get(autoscalers.key_of(document.value))
        resource = autoscalers.scaled(manifest_kinds.with_template(document.value), autoscaler)
        resource = _running(resource, running.get(manifest_kinds.title_of(document.value), {}))
        if moves_volumes:
            resource = _annotated(resource, "move-volumes", "accept")
        asked.append(Question(document, resource, autoscaler))
    return asked


def _running(manifest: Mapping[str, Any], weights: Mapping[str, float]) -> Mapping[str, Any]:
    """The manifest with an annotation that says where it runs, unless it has one."""
    clusters = {name: {"weight": weight} for name, weight in weights.items() if weight}
    if not clusters:
        return manifest
    return _annotated(manifest, ANNOTATION, json.dumps({"clusters": clusters}, sort_keys=True))


def _annotated(manifest: Mapping[str, Any], key: str, value: str) -> Mapping[str, Any]:
    """The manifest with an annotation, unless it has that or its annotations are none."""
    metadata = manifest.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not isinstance(annotations, dict) or key in annotations:
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, key: value}}}

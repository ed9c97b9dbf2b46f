"""The decision about one object: on which clusters it is, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.common import yaml_files
from fairlead.kube import stored_fields
from fairlead.placement import manifest_kinds

ANNOTATION = "federation.kubernetes.io/replica-set-preferences"
"""Says on which clusters an object is, as JSON: `{"clusters": {NAME: {"weight": NUMBER}}}`."""

_DIGITS = 12  # of costs, after the point; rounding leaves no 0.10999999999999999


@dataclass(frozen=True)
class Placement:
    """The decision about one object.

    `clusters` are the weights of the clusters where it is, by name, and `replicas` what each of
    them runs; both are empty if there are `errors`, which are lists of sentences by what they are
    about. `explanation` says for each cluster `allowed`, or why it is not there.

    `costs` are what an hour of all replicas would cost in each cluster that no other rule excludes;
    empty if the data have no prices for it.

    `most` are the replicas that each cluster may get by an autoscaler, if one sets them.
    `fields` are those of its spec that differ between clusters, by their names; None for one that
    is left to an autoscaler. `follows` says that it has no pods, and so no replicas. `customer` is
    whose it is, None if nobody says so, and `lawful` are the clusters where data of that customer
    may be. `carries` says that all objects that its pods need may be where they are. `notes` are
    sentences about it.
    """

    document: yaml_files.Document
    clusters: Mapping[str, float]
    replicas: Mapping[str, int]
    errors: Mapping[str, Sequence[str]]
    explanation: Mapping[str, str]
    costs: Mapping[str, float]
    fields: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    namespaced: bool = True
    follows: bool = False
    customer: str | None = None
    lawful: frozenset[str] = frozenset()
    carries: bool = True
    most: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def targets(self) -> list[str]:
        """The clusters that get the object, sorted: those with any replicas; all, if there are none
        to run.
        """
        running = [name for name, count in self.replicas.items() if count]
        return sorted(running or self.clusters)

    @property
    def cluster_costs(self) -> dict[str, float | None]:
        """What an hour of the replicas of each cluster costs; None if that is not known."""
        number = sum(self.replicas.values())
        return {
            name: round(self.costs[name] * replicas / max(number, 1), _DIGITS)
            if name in self.costs
            else None
            for name, replicas in self.replicas.items()
        }

    @property
    def cost(self) -> float | None:
        """What an hour of the decision costs; None if that is not known, or there are errors."""
        costs = [cost for cost in self.cluster_costs.values() if cost is not None]
        complete = costs and len(costs) == len(self.replicas)
        return round(sum(costs), _DIGITS) if complete else None

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty if it belongs to none."""
        metadata = self.document.value.get("metadata") or {}
        return manifest_kinds.namespace_of(metadata) if self.namespaced else ""

    @property
    def title(self) -> str:
        """The object, as in `Deployment shop/web`."""
        return manifest_kinds.title_of(self.document.value, namespaced=self.namespaced)

    @property
    def sentences(self) -> list[str]:
        """The errors, one a sentence, each with what it is about."""
        return [f"{about}: {text}" for about, texts in self.errors.items() for text in texts]

    @property
    def annotations(self) -> dict[str, str]:
        """The annotation that says where the object is; none if there are errors."""
        if self.errors:
            return {}
        clusters = {name: {"weight": weight} for name, weight in self.clusters.items()}
        text = json.dumps({"clusters": clusters}, sort_keys=True, separators=(",", ":"))
        return {ANNOTATION: text}

    def annotated(self) -> dict[str, Any]:
        """The manifest with the annotation, and without what an API server has added to it."""
        manifest = stored_fields.written_again(self.document.value)
        if not self.namespaced:
            return manifest
        metadata = manifest.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), **self.annotations}
        return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def costs_of(costs: Mapping[str, float]) -> dict[str, float]:
    """Costs as they are shown."""
    return {name: round(cost, _DIGITS) for name, cost in costs.items()}

"""Decides on which clusters the workloads of manifests run, by `opa eval`, for `fairlead place`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.inputs import manifest_files
from fairlead.opa import cli
from fairlead.placement import data_sources, replica_division
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

ANNOTATION = "federation.kubernetes.io/replica-set-preferences"
"""Says on which clusters a workload runs, as JSON: `{"clusters": {NAME: {"weight": NUMBER}}}`."""
WORKLOADS = {
    "apps/Deployment": "replicas",
    "apps/ReplicaSet": "replicas",
    "apps/StatefulSet": "replicas",
    "batch/Job": "parallelism",
}
"""The kinds that are placed, `group/Kind`, with the field of their spec that counts pods."""

_DIGITS = 12  # of costs, after the point; rounding leaves no 0.10999999999999999

DECIDED = """
# One `with` for both, because each `with` makes OPA evaluate all rules again.
_decided(workload) := decided if {
	decided := {
		"answer": [answer | answer := data.k8s.placement],
		"costs": data.lib.workload_placement.costs.by_cluster,
	} with input as {"resource": workload}
}
"""
"""Rego for the decision about a workload and its costs, for modules of one's own."""
_MODULE = f"""
package fairlead_placements

answers := [_decided(workload) | some workload in data.fairlead_workloads]
{DECIDED}"""


@dataclass(frozen=True)
class Placement:
    """The decision about one workload.

    `clusters` are the weights of the clusters where it runs, by name, and `replicas` what each of
    them gets; both are empty if there are `errors`, which are lists of sentences by what they are
    about. `explanation` says for each cluster `allowed`, or which rule excludes it.

    `costs` are what an hour of all replicas would cost in each cluster that no other rule excludes;
    empty if the data have no prices for it.
    """

    document: yaml_files.Document
    clusters: Mapping[str, float]
    replicas: Mapping[str, int]
    errors: Mapping[str, Sequence[str]]
    explanation: Mapping[str, str]
    costs: Mapping[str, float]

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
        """The namespace of the workload."""
        return namespace_of(self.document.value.get("metadata") or {})

    @property
    def title(self) -> str:
        """The workload, as in `Deployment shop/web`."""
        return title_of(self.document.value)

    @property
    def sentences(self) -> list[str]:
        """The errors, one a sentence, each with what it is about."""
        return [f"{about}: {text}" for about, texts in self.errors.items() for text in texts]

    @property
    def annotations(self) -> dict[str, str]:
        """The annotation that says where the workload runs; none if there are errors."""
        if self.errors:
            return {}
        clusters = {name: {"weight": weight} for name, weight in self.clusters.items()}
        text = json.dumps({"clusters": clusters}, sort_keys=True, separators=(",", ":"))
        return {ANNOTATION: text}

    def annotated(self) -> dict[str, Any]:
        """The manifest with the annotation."""
        metadata = self.document.value.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), **self.annotations}
        return {**self.document.value, "metadata": {**metadata, "annotations": annotations}}


@dataclass(frozen=True)
class Result:
    """What was read, in its order: every document, and the decision about those that are
    workloads.
    """

    documents: Sequence[tuple[yaml_files.Document, Placement | None]]

    @property
    def placements(self) -> list[Placement]:
        return [placement for _, placement in self.documents if placement]


@dataclass(frozen=True)
class Inputs:
    """What decisions are made from: all manifests, and OPA's data."""

    documents: Sequence[yaml_files.Document]
    data: Mapping[str, Any]

    @property
    def workloads(self) -> list[yaml_files.Document]:
        """The manifests of the workloads to place."""
        return [document for document in self.documents if _is_placed(document.value)]


def read(paths: Sequence[Path], data_sources: Sequence[str], *, progress: Progress) -> Inputs:
    """What the files say.

    `data_sources` have OPA's data, see opa_data. Raises InputError for a file that cannot be read,
    and UsageError if there is no workload.
    """
    documents = manifest_files.read(paths).all_readable()
    workloads_in(documents, paths)
    return Inputs(documents, opa_data(data_sources, documents, progress=progress))


def decide(
    inputs: Inputs,
    *,
    folder: Path | None = None,
    running: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    progress: Progress,
) -> Result:
    """The decisions on the workloads. Those that belong to another object, such as the ReplicaSets
    of a Deployment, are left alone.

    The policies are those of `folder`, if it has a main.rego, or the checkout's. `running` are the
    replicas of workloads in each cluster, by their titles (`title_of`): among equal clusters, they
    stay where they run. Raises FairleadError if OPA fails.
    """
    workloads = inputs.workloads
    modules = PolicySet.load(Settings(placement=True), folder).modules
    answers = (
        cli.evaluate(
            "data.fairlead_placements.answers",
            modules={**modules, "fairlead_placements.rego": _MODULE},
            data={
                **inputs.data,
                "fairlead_workloads": [
                    _running(document.value, running.get(title_of(document.value), {}))
                    for document in workloads
                ],
            },
            progress=progress,
        )
        if workloads
        else []
    )
    placements = {
        id(document): read_answer(document, answer)
        for document, answer in zip(workloads, answers, strict=True)
    }
    return Result([(document, placements.get(id(document))) for document in inputs.documents])


def _running(manifest: Mapping[str, Any], replicas: Mapping[str, int]) -> Mapping[str, Any]:
    """The manifest with an annotation that says where it runs, unless it has one."""
    weights = {name: {"weight": count} for name, count in replicas.items() if count}
    metadata = manifest.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not weights or not isinstance(annotations, dict) or ANNOTATION in annotations:
        return manifest
    text = json.dumps({"clusters": weights}, sort_keys=True)
    return {**manifest, "metadata": {**metadata, "annotations": {**annotations, ANNOTATION: text}}}


def workloads_in(
    documents: Sequence[yaml_files.Document], paths: Sequence[Path]
) -> list[yaml_files.Document]:
    """The workloads to place among the documents of these paths. Raises UsageError for none."""
    workloads = [document for document in documents if _is_placed(document.value)]
    if not workloads:
        kinds = ", ".join(sorted(kind.split("/")[1] for kind in WORKLOADS))
        names = ", ".join(str(yaml_files.shown(path)) for path in paths)
        raise UsageError(f"{names}: no workload to place: name manifests of one of {kinds}")
    return workloads


def _is_placed(manifest: Mapping[str, Any]) -> bool:
    owners = (manifest.get("metadata") or {}).get("ownerReferences") or ()
    return kind_of(manifest) in WORKLOADS and not any(
        isinstance(owner, dict) and owner.get("controller") for owner in owners
    )


def kind_of(manifest: Mapping[str, Any]) -> str:
    """The kind of a manifest as in WORKLOADS."""
    return f"{manifest['apiVersion'].rpartition('/')[0]}/{manifest['kind']}"


def namespace_of(metadata: Mapping[str, Any]) -> str:
    """The namespace of an object with these metadata."""
    return metadata.get("namespace") or "default"


def title_of(manifest: Mapping[str, Any]) -> str:
    """The workload of a manifest, as in `Deployment shop/web`."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or "(unnamed)"
    return f"{manifest['kind']} {namespace_of(metadata)}/{name}"


def opa_data(
    sources: Sequence[str], documents: Sequence[yaml_files.Document], *, progress: Progress
) -> dict[str, Any]:
    """OPA's data: those of files and URLs (see data_sources.read), with the namespaces that are
    among the manifests. Raises InputError for a file without data of clusters.
    """
    return with_namespaces(data_sources.read(sources, progress), documents)


def with_namespaces(
    data: Mapping[str, Any], documents: Sequence[yaml_files.Document]
) -> dict[str, Any]:
    """OPA's data: `placement` of these data, and the namespaces that they, or manifests, have."""
    kubernetes = data.get("kubernetes") or {}
    namespaces = kubernetes.get("namespaces") if isinstance(kubernetes, dict) else None
    described = {
        document.value["metadata"]["name"]: {"metadata": document.value["metadata"]}
        for document in documents
        if (document.value["apiVersion"], document.value["kind"]) == ("v1", "Namespace")
        and (document.value.get("metadata") or {}).get("name")
    }
    objects = namespaces if isinstance(namespaces, dict) else {}
    return {
        "placement": data["placement"],
        "kubernetes": {"namespaces": {**objects, **described}},
    }


def read_answer(document: yaml_files.Document, decided: Mapping[str, Any]) -> Placement:
    """What DECIDED decided about this workload. Raises FairleadError if there is no answer."""
    if not decided["answer"]:
        raise FairleadError("the policies give no answer (data.k8s.placement is undefined)")
    (answer,) = decided["answer"]
    preferences = answer["annotations"]["replica-set-preferences"]["clusters"]
    weights = {name: preference["weight"] for name, preference in sorted(preferences.items())}
    replicas = {}
    if weights:  # otherwise the number may be none
        number = (document.value.get("spec") or {}).get(WORKLOADS[kind_of(document.value)])
        replicas = replica_division.divided(1 if number is None else int(number), weights)
    costs = {name: round(cost, _DIGITS) for name, cost in decided["costs"].items()}
    return Placement(document, weights, replicas, answer["errors"], answer["explanation"], costs)

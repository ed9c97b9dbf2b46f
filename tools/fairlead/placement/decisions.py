"""Decides on which clusters the objects of manifests are, by `opa eval`, for `fairlead place`.

OPA decides about each workload. Other objects follow those of their namespace (followers).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fairlead.common import yaml_files
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.placement import (
    autoscalers,
    data_sources,
    followers,
    manifest_kinds,
    questions,
    sources,
    volumes,
    wishes,
)
from fairlead.placement.placements import Placement
from fairlead.placement.questions import Question
from fairlead.policy import policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


@dataclass(frozen=True)
class Result:
    """What was read, in its order: every document, and the decision about those that are objects to
    place. `notes` are sentences about what is left out, and `unread` the titles of workloads that
    are there and could not be read.
    """

    documents: Sequence[tuple[yaml_files.Document, Placement | None]]
    notes: Sequence[str] = ()
    unread: Collection[str] = ()

    @property
    def placements(self) -> list[Placement]:
        """The decisions about all objects."""
        return [placement for _, placement in self.documents if placement]

    @property
    def workloads(self) -> list[Placement]:
        """The decisions about objects that run pods."""
        return [placement for placement in self.placements if not placement.follows]


@dataclass(frozen=True)
class Inputs:
    """What decisions are made from: all manifests, OPA's data, and the weights of the clusters
    where workloads run by what carried out the last decision, by their titles. `unread` are the
    titles of workloads that are too large to be read.
    """

    documents: Sequence[yaml_files.Document]
    data: Mapping[str, Any]
    running: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    unread: Collection[str] = ()

    @property
    def workloads(self) -> Sequence[yaml_files.Document]:
        """The manifests of the workloads to place."""
        return manifest_kinds.sort(self.documents).workloads


def read(paths: Sequence[Path], data_sources: Sequence[str], *, progress: Progress) -> Inputs:
    """What the files say.

    `data_sources` have OPA's data, see opa_data. Annotations that look like wishes and are not read
    are warnings. Raises InputError for a file that cannot be read, and UsageError if there is no
    workload.
    """
    documents = sources.documents(paths)
    _require_workload(documents, paths)
    for warning in wishes.unread(documents):
        progress.warn(warning)
    return Inputs(documents, opa_data(data_sources, documents, progress=progress))


def decide(
    inputs: Inputs,
    *,
    folder: Path | None = None,
    running: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
    moves_volumes: bool = False,
    progress: Progress,
) -> Result:
    """The decisions on all objects. Those that a controller makes from another object, such as the
    ReplicaSets of a Deployment, are left out.

    The policies are those of `folder`, if it has a main.rego, or the checkout's. `running` are the
    replicas of workloads in each cluster, by their titles (`title_of`): among equal clusters, they
    stay where they run. Workloads with volumes leave their clusters only if `moves_volumes`. Raises
    FairleadError if OPA fails.
    """
    parts = manifest_kinds.sort(inputs.documents)
    about_workloads = questions.about_workloads(
        parts, running={**inputs.running, **running}, moves_volumes=moves_volumes
    )
    about_others = followers.Questions(parts)
    asked = [question.data for question in (*about_workloads, *about_others.asked)]
    answers = cli.evaluate(
        "data.fairlead_placements.answers",
        modules={**modules(folder), "fairlead_placements.rego": questions.MODULE},
        data={**inputs.data, "fairlead_questions": asked},
        progress=progress,
    )
    number = len(about_workloads)
    workloads = read_answers(about_workloads, answers[:number], inputs.documents)
    placements = {
        id(placement.document): placement
        for placement in about_others.placed(workloads, answers[number:])
    }
    return Result(
        [(document, placements.get(id(document))) for document in inputs.documents],
        [*_notes(parts), *map(_left_alone, sorted(inputs.unread))],
        inputs.unread,
    )


def modules(folder: Path | None) -> Mapping[str, str]:
    """The policies of placement: those of `folder`, if it has a main.rego, or the checkout's."""
    settings = Settings(placement=True)
    return PolicySet.load(settings, folder, further=[policy_files.QUERIES]).modules


def read_answers(
    asked: Sequence[Question],
    answers: Sequence[Mapping[str, Any]],
    documents: Iterable[yaml_files.Document],
) -> list[Placement]:
    """The decisions about workloads. The documents may say what becomes of their volumes."""
    return [
        _explained(question.read(answer), documents)
        for question, answer in zip(asked, answers, strict=True)
    ]


def _explained(placement: Placement, documents: Iterable[yaml_files.Document]) -> Placement:
    """The placement, with what becomes of each volume if it would leave any."""
    if "volumes" not in placement.errors:
        return placement
    sentences = [
        *(f"{text}, or --move-volumes=accept for all" for text in placement.errors["volumes"]),
        *volumes.sentences(placement.document.value, documents),
    ]
    return replace(placement, errors={**placement.errors, "volumes": sentences})


def _notes(parts: manifest_kinds.Sorted) -> list[str]:
    """A sentence about each object that is left out and whose owner is not there to make it."""
    present = {
        autoscalers.key_of(document.value)
        for document in (*parts.workloads, *parts.others, *parts.made)
    }
    notes = []
    for document in parts.made:
        owner = manifest_kinds.owner_of(document.value) or {}
        group = str(owner.get("apiVersion", "")).rpartition("/")[0]
        namespace = manifest_kinds.namespace_of(document.value.get("metadata") or {})
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        if (group, kind, namespace, name) not in present:
            title = manifest_kinds.title_of(document.value)
            notes.append(f"{title} is left out: {kind} {name}, which makes it, is not here")
    return notes


def _left_alone(title: str) -> str:
    return f"{title} is left out: it is too large to be read, and stays where it runs"


def _require_workload(documents: Sequence[yaml_files.Document], paths: Sequence[Path]) -> None:
    """Raises UsageError if no document of these paths is a workload to place."""
    if not manifest_kinds.sort(documents).workloads:
        kinds = ", ".join(
            sorted(kind for _, kind in (*manifest_kinds.TEMPLATES, manifest_kinds.PODS))
        )
        names = ", ".join(str(yaml_files.shown(path)) for path in paths)
        raise UsageError(
            f"{names}: no workload to place: name manifests of one of {kinds}, or of a custom kind "
            "with a template of pods"
        )


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

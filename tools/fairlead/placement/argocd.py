"""Makes the ApplicationSets by which Argo CD carries out decisions (argoproj.io/v1alpha1).

All objects are in one folder, so each Application has patches of Kustomize that leave of it only
what is placed there: they remove a mark that somebody else has written, mark these objects by an
annotation, delete all others, and remove the mark. What comes into the folder later is deleted as
well, until it is decided on. There is an ApplicationSet for each namespace, with an element of its
list generator for each cluster.

Source: Argo CD's documentation, "List Generator" and "Template Patch"; Kustomize's, "patches".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.placement import names, placed_objects
from fairlead.placement.placed_objects import PlacedObject
from fairlead.placement.placements import Placement

API_VERSION = "argoproj.io/v1alpha1"
CLUSTER_SCOPED = "cluster-scoped.objects"
"""The name of the ApplicationSet of what belongs to no namespace. No namespace has a dot in it."""
_MARK = "fairlead.dev/placed"
_SOURCE = re.compile(r"(?P<url>.+?[^:/])//(?P<path>[^?]+?)/?(\?ref=(?P<revision>.+))?")

# Argo CD merges it into the Application of a cluster. It is a Go template; an element is its data.
# printf %q quotes the patches, which are JSON. Kustomize makes patches one after the other.
_DELETE = '{"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}, "$patch": "delete"}'
_UNMARK = f'[{{"op": "remove", "path": "/metadata/annotations/{_MARK.replace("/", "~1")}"}}]'
_PATCH = f"""\
spec:
  source:
    kustomize:
      patches:
        - target: {{annotationSelector: {_MARK}}}
          patch: '{_UNMARK}'
        {{{{- range .objects }}}}
        - target: {{{{ .target }}}}
          patch: {{{{ printf "%q" .patch }}}}
        {{{{- end }}}}
        - target: {{annotationSelector: '!{_MARK}'}}
          patch: '{_DELETE}'
        - target: {{annotationSelector: {_MARK}}}
          patch: '{_UNMARK}'
"""


@dataclass(frozen=True)
class Source:
    """Where the manifests are: the URL of a git repository, a folder in it, and a revision."""

    url: str
    path: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> Source:
        """The source in Kustomize's notation, `URL//FOLDER?ref=REVISION`; the default revision is
        HEAD. Raises UsageError.
        """
        match = _SOURCE.fullmatch(text)
        if match is None:
            raise UsageError(
                f"--source {text}: write URL//FOLDER?ref=REVISION, such as "
                "https://git.example.com/shop.git//deploy?ref=main"
            )
        return cls(match["url"], match["path"], match["revision"] or "HEAD")


@dataclass(frozen=True)
class Place:
    """Where Argo CD has the ApplicationSets: its namespace, and the project of the Applications."""

    namespace: str = "argocd"
    project: str = "default"


def application_sets(
    placements: Sequence[Placement], source: Source, place: Place = Place()
) -> list[dict[str, Any]]:
    """An ApplicationSet for each namespace, sorted by its name, before them one for the objects of
    no namespace. The clusters have the names by which Argo CD knows them. Raises InputError as
    placed_objects.of.

    A namespace in which an object has errors is left out: what Argo CD runs of it stays as it is.
    """
    failed = {placement.namespace for placement in placements if placement.errors}
    return [
        _of(namespace, objects, source, place)
        for namespace, objects in placed_objects.by_home(placed_objects.of(placements))
        if namespace not in failed
    ]


def _of(
    namespace: str, objects: Sequence[PlacedObject], source: Source, place: Place
) -> dict[str, Any]:
    clusters = sorted({name for placed in objects for name in placed.targets})
    elements = [_element(namespace, cluster, objects) for cluster in clusters]
    return {
        "apiVersion": API_VERSION,
        "kind": "ApplicationSet",
        "metadata": {"name": namespace or CLUSTER_SCOPED, "namespace": place.namespace},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{"list": {"elements": elements}}],
            "template": _template(namespace, source, place),
            "templatePatch": _PATCH,
        },
    }


def _template(namespace: str, source: Source, place: Place) -> dict[str, Any]:
    """The Application of each cluster, without its patches."""
    return {
        "metadata": {"name": "{{ .application }}"},
        "spec": {
            "project": place.project,
            "source": {
                "repoURL": source.url,
                "path": source.path,
                "targetRevision": source.revision,
            },
            "destination": {
                "name": "{{ .cluster }}",
                **({"namespace": namespace} if namespace else {}),
            },
            # Pruning removes from a cluster what the decision has moved away from it.
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                # A custom object may come before its definition, which is in another Application.
                "retry": {"limit": -1},
                **({"syncOptions": ["CreateNamespace=true"]} if namespace else {}),
            },
        },
    }


def _element(namespace: str, cluster: str, objects: Sequence[PlacedObject]) -> dict[str, Any]:
    text = "-".join((namespace or CLUSTER_SCOPED, cluster))
    return {
        "cluster": cluster,
        "application": names.unique(text, namespace, cluster),
        "objects": [
            {"target": _target(placed), "patch": _patch(placed.fields[cluster])}
            for placed in sorted(objects, key=lambda each: (each.kind, each.name))
            if cluster in placed.targets
        ],
    }


def _target(placed: PlacedObject) -> str:
    """The object as Kustomize finds it, as JSON. All parts are patterns there; an empty one fits
    everything, such as the Services of all groups.
    """
    target = {
        "group": _pattern(placed.api_version.rpartition("/")[0]) or "^$",
        "kind": placed.kind,
        "name": _pattern(placed.name),
        "namespace": _pattern(placed.namespace),
    }
    return json.dumps({key: value for key, value in target.items() if value})


def _pattern(text: str) -> str:
    return re.escape(text).replace(r"\-", "-")


def _patch(fields: Mapping[str, int | None]) -> str:
    """A strategic merge patch, as JSON: the mark, and the fields of the spec of this cluster."""
    patch = {
        "apiVersion": "v1",
        "kind": "Any",
        "metadata": {"name": "any", "annotations": {_MARK: ""}},
        **({"spec": dict(fields)} if fields else {}),
    }
    return json.dumps(patch)

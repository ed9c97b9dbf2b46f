"""Makes the ApplicationSets by which Argo CD carries out decisions (argoproj.io/v1alpha1).

Each namespace has one, because all its workloads come from one folder. Its list generator has an
element for each cluster: the workloads that run there, with their replicas, and those that do not.
The template turns them into patches of Kustomize.

Source: Argo CD's documentation, "List Generator" and "Template Patch"; Kustomize's, "patches".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairlead.common.errors import UsageError
from fairlead.placement import workloads as placed
from fairlead.placement.decisions import Placement
from fairlead.placement.workloads import Workload

API_VERSION = "argoproj.io/v1alpha1"
_NAMESPACE = "argocd"
_SOURCE = re.compile(r"(?P<url>.+?[^:/])//(?P<path>[^?]+?)/?(\?ref=(?P<revision>.+))?")

# Argo CD merges it into the Application of a cluster. It is a Go template; an element is its data.
# printf %q quotes names such as `on` or `123`. Kustomize's targets are patterns.
_PATCH = """\
spec:
  source:
    kustomize:
      patches:
        {{- range .runs }}
        - target: {group: {{ .group }}, kind: {{ .kind }}, name: {{ printf "%q" .pattern }}}
          patch: '[{"op": "add", "path": "/spec/{{ .field }}", "value": {{ .replicas }}}]'
        {{- end }}
        {{- range .absent }}
        - target: {group: {{ .group }}, kind: {{ .kind }}, name: {{ printf "%q" .pattern }}}
          patch: |
            $patch: delete
            apiVersion: {{ .apiVersion }}
            kind: {{ .kind }}
            metadata: {name: {{ printf "%q" .name }}}
        {{- end }}
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


def application_sets(placements: Sequence[Placement], source: Source) -> list[dict[str, Any]]:
    """An ApplicationSet for each namespace, sorted by its name. The clusters have the names by
    which Argo CD knows them. Raises InputError as workloads.of.

    A namespace in which a workload has errors is left out: Argo CD would deploy that in every
    cluster, as it is in the same folder.
    """
    failed = {placement.namespace for placement in placements if placement.errors}
    return [
        _of(namespace, workloads, source)
        for namespace, workloads in placed.by_namespace(placed.of(placements))
        if namespace not in failed
    ]


def _of(namespace: str, workloads: Sequence[Workload], source: Source) -> dict[str, Any]:
    clusters = sorted({name for workload in workloads for name in workload.replicas})
    template = {
        "metadata": {"name": namespace + "-{{ .cluster }}"},
        "spec": {
            "project": "default",
            "source": {
                "repoURL": source.url,
                "path": source.path,
                "targetRevision": source.revision,
            },
            "destination": {"name": "{{ .cluster }}", "namespace": namespace},
            # Pruning removes from a cluster what the decision has moved away from it.
            "syncPolicy": {
                "automated": {"prune": True, "selfHeal": True},
                "syncOptions": ["CreateNamespace=true"],
            },
        },
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ApplicationSet",
        "metadata": {"name": namespace, "namespace": _NAMESPACE},
        "spec": {
            "goTemplate": True,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [
                {"list": {"elements": [_element(cluster, workloads) for cluster in clusters]}}
            ],
            "template": template,
            "templatePatch": _PATCH,
        },
    }


def _element(cluster: str, workloads: Sequence[Workload]) -> dict[str, Any]:
    runs, absent = [], []
    for workload in sorted(workloads, key=lambda each: (each.kind, each.name)):
        target = {
            "group": workload.api_version.partition("/")[0],
            "kind": workload.kind,
            "name": workload.name,
            "pattern": re.escape(workload.name).replace(r"\-", "-"),
        }
        if cluster in workload.replicas:
            # A text: Go templates write large numbers as 1e+06.
            count = str(workload.replicas[cluster])
            runs.append({**target, "field": workload.field, "replicas": count})
        else:
            absent.append({**target, "apiVersion": workload.api_version})
    return {"cluster": cluster, "runs": runs, "absent": absent}

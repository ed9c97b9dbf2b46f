"""How many values an object may have, and in which lists and maps they are counted.

The cost of a review depends on the number of its values far more than on its bytes: for 100,000
empty entries of `env`, which have 1.3 MB, OPA needs 2.9 s and 130 MB; for one text of 3 MB, 13 MB.
So the lengths of all lists and maps of a pod are added up. OPA's proxy does so
(tools/proxy/reduction.go), because it reads each review anyway: an API server would convert each
object for it, which took a third of its time for a pod. Before the engine `python`, there is no
proxy, so API servers count by CEL.

Fields that only a newer API server has are not counted; OPA's limit of bytes
(fairlead.opa.arguments) still applies to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fairlead.common import paths

MOST_VALUES = 10_000
"""Entries of all lists and maps of a pod, together. The largest pods known have some hundred of
each kind."""
MOST_PARTS = 1_000
"""Containers and volumes of a pod, together. Each is looked into, and the API server bounds that
cost."""
_PARTS = ("containers", "ephemeralContainers", "initContainers", "volumes")

Shape = Mapping[str, Any]
"""The lists and maps of an object, by field: None for a list or map that is only counted, a shape
for an object, [shape] for a list of objects that have lists or maps themselves, FIELDS for objects
nested to any depth, NONE for an object that should not exist. The field "" is the object itself."""
FIELDS = "fields"
NONE = "none"
"""An object that should not exist. CEL cannot count in so many places: one is too many."""

_NULLABLE = frozenset(
    {"containers", "monitors", "nodeSelectorTerms", "rules", "selector", "sources", "values"}
)
"""Fields that an API server sets to null if the request lacks them: in k8s.io/api, they have no
`omitempty`. It refuses most of these objects afterwards, and says why.
"""

_DEPTH = 12
"""Levels of the fields that a manager owns; a CronJob's deepest are eleven."""

_METADATA: Shape = {
    "annotations": None,
    "finalizers": None,
    "labels": None,
    "managedFields": [{"fieldsV1": FIELDS}],
    "ownerReferences": None,
}
_CLAIM_METADATA: Shape = {**_METADATA, "managedFields": [{"fieldsV1": NONE}]}
_SELECTOR: Shape = {"matchExpressions": [{"values": None}], "matchLabels": None}
_NODE_SELECTOR: Shape = {"matchExpressions": [{"values": None}], "matchFields": [{"values": None}]}
_POD_TERM: Shape = {
    "labelSelector": _SELECTOR,
    "matchLabelKeys": None,
    "mismatchLabelKeys": None,
    "namespaceSelector": _SELECTOR,
    "namespaces": None,
}
_POD_AFFINITY: Shape = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": _POD_TERM}],
    "requiredDuringSchedulingIgnoredDuringExecution": [_POD_TERM],
}
_RESOURCES: Shape = {"claims": None, "limits": None, "requests": None}
_HANDLER: Shape = {"exec": {"command": None}, "httpGet": {"httpHeaders": None}}
_CONTAINER: Shape = {
    "args": None,
    "command": None,
    "env": None,
    "envFrom": None,
    "lifecycle": {"postStart": _HANDLER, "preStop": _HANDLER},
    "livenessProbe": _HANDLER,
    "ports": None,
    "readinessProbe": _HANDLER,
    "resizePolicy": None,
    "resources": _RESOURCES,
    "restartPolicyRules": [{"exitCodes": {"values": None}}],
    "securityContext": {"capabilities": {"add": None, "drop": None}},
    "startupProbe": _HANDLER,
    "volumeDevices": None,
    "volumeMounts": None,
}
_ITEMS: Shape = {"items": None}
_VOLUME: Shape = {
    "cephfs": {"monitors": None},
    "configMap": _ITEMS,
    "csi": {"volumeAttributes": None},
    "downwardAPI": _ITEMS,
    "ephemeral": {
        "volumeClaimTemplate": {
            "metadata": _CLAIM_METADATA,
            "spec": {
                "accessModes": None,
                "resources": {"limits": None, "requests": None},
                "selector": _SELECTOR,
            },
        }
    },
    "fc": {"targetWWNs": None, "wwids": None},
    "flexVolume": {"options": None},
    "iscsi": {"portals": None},
    "projected": {
        "sources": [
            {
                "clusterTrustBundle": {"labelSelector": _SELECTOR},
                "configMap": _ITEMS,
                "downwardAPI": _ITEMS,
                "podCertificate": {"userAnnotations": None},
                "secret": _ITEMS,
            }
        ]
    },
    "rbd": {"monitors": None},
    "secret": _ITEMS,
}
_CONTAINER_STATUS: Shape = {
    "allocatedResources": None,
    "allocatedResourcesStatus": [{"resources": None}],
    "resources": _RESOURCES,
    "user": {"linux": {"supplementalGroups": None}},
    "volumeMounts": None,
}
_POD_SPEC: Shape = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"preference": _NODE_SELECTOR}],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [_NODE_SELECTOR]
            },
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
    "containers": [_CONTAINER],
    "dnsConfig": {"nameservers": None, "options": None, "searches": None},
    "ephemeralContainers": [_CONTAINER],
    "hostAliases": [{"hostnames": None}],
    "imagePullSecrets": None,
    "initContainers": [_CONTAINER],
    "nodeSelector": None,
    "overhead": None,
    "readinessGates": None,
    "resourceClaims": None,
    "resources": _RESOURCES,
    "schedulingGates": None,
    "securityContext": {"supplementalGroups": None, "sysctls": None},
    "tolerations": None,
    "topologySpreadConstraints": [{"labelSelector": _SELECTOR, "matchLabelKeys": None}],
    "volumes": [_VOLUME],
}
_JOB_SPEC: Shape = {
    "podFailurePolicy": {"rules": [{"onExitCodes": {"values": None}, "onPodConditions": None}]},
    "selector": _SELECTOR,
    "successPolicy": {"rules": None},
}
_CLAIM: Shape = {
    **_VOLUME["ephemeral"]["volumeClaimTemplate"],
    "status": {
        "accessModes": None,
        "allocatedResourceStatuses": None,
        "allocatedResources": None,
        "capacity": None,
        "conditions": None,
    },
}


@dataclass(frozen=True)
class Kind:
    """The lists and maps of objects of one or several kinds, in Kubernetes 1.36.

    Attributes:
        template: CEL for the pod, or the pod template, in the object `o`; None if it has neither.
        templates: the paths at which it may be.
        beside: what else the object holds.
    """

    template: str | None
    templates: tuple[tuple[str, ...], ...]
    beside: Shape


TEMPLATE: Shape = {"metadata": _METADATA, "spec": _POD_SPEC}
POD = Kind(
    "o",
    ((),),
    {
        "status": {  # of a new pod, too: it is dropped after admission
            "allocatedResources": None,
            "conditions": None,
            "containerStatuses": [_CONTAINER_STATUS],
            "ephemeralContainerStatuses": [_CONTAINER_STATUS],
            "extendedResourceClaimStatus": {"requestMappings": None},
            "hostIPs": None,
            "initContainerStatuses": [_CONTAINER_STATUS],
            "nodeAllocatableResourceClaimStatuses": [{"containers": None, "resources": None}],
            "podIPs": None,
            "resourceClaimStatuses": None,
            "resources": _RESOURCES,
        }
    },
)
DAEMON_SET = Kind(
    "o.spec.template",
    (("spec", "template"),),
    {"metadata": _METADATA, "spec": {"selector": _SELECTOR}, "status": {"conditions": None}},
)
WORKLOAD = Kind(
    # A ReplicationController may lack the template.
    "has(o.spec.jobTemplate) ? o.spec.jobTemplate.spec.template"
    " : has(o.spec.template) ? o.spec.template : {'spec': {}}",
    (("spec", "jobTemplate", "spec", "template"), ("spec", "template")),
    {
        "metadata": _METADATA,
        "spec": {
            **_JOB_SPEC,
            "selector": {"": None, **_SELECTOR},  # a ReplicationController's is a map
            "jobTemplate": {"metadata": _METADATA, "spec": _JOB_SPEC},
            "volumeClaimTemplates": [_CLAIM],
        },
        "status": {
            "active": None,
            "conditions": None,
            "uncountedTerminatedPods": {"failed": None, "succeeded": None},
        },
    },
)
NAMESPACE = Kind(
    None, (), {"metadata": _METADATA, "spec": {"finalizers": None}, "status": {"conditions": None}}
)
GROUPS: Mapping[str, Kind] = {
    "pods": POD,
    "daemonsets": DAEMON_SET,
    "workloads": WORKLOAD,
    "namespaces": NAMESPACE,
}
"""The kinds whose lists and maps are known, in groups that share an expression."""
_MEMBERS = {
    "/Pod": "pods",
    "apps/DaemonSet": "daemonsets",
    "/ReplicationController": "workloads",
    "apps/Deployment": "workloads",
    "apps/ReplicaSet": "workloads",
    "apps/StatefulSet": "workloads",
    "batch/CronJob": "workloads",
    "batch/Job": "workloads",
    "/Namespace": "namespaces",
}


def group_of(kind: str) -> str:
    """The group of a kind that is written `group/Kind`; `others` if its fields are not known."""
    return _MEMBERS.get(kind, "others")


def texts() -> Mapping[Path, str]:
    """The file by which OPA's proxy counts, and what it should hold (tools/proxy/shapes.go)."""
    groups = {
        name: {"templates": kind.templates, "beside": _counted(kind.beside)}
        for name, kind in GROUPS.items()
    }
    document = {
        "mostValues": MOST_VALUES,
        "mostParts": MOST_PARTS,
        "groups": groups,
        "kinds": _MEMBERS,
        "template": _counted(TEMPLATE),
    }
    text = json.dumps(document, indent=1, sort_keys=True)
    return {paths.root() / "tools" / "proxy" / "shapes.json": f"{text}\n"}


def _counted(shape: Any, field: str = "") -> Any:
    """The shape as the proxy reads it: `all` is a value whose entries count to any depth, and
    "parts" stands beside the shape of containers and volumes.
    """
    if isinstance(shape, Mapping):
        return {name: _counted(inner, name) for name, inner in shape.items()}
    if isinstance(shape, list):
        return [_counted(shape[0]), *(["parts"] if field in _PARTS else [])]
    return "all" if shape in (FIELDS, NONE) else None


def is_too_large(kind: str, value: Any) -> bool:
    """Whether an object of a kind, written `group/Kind`, is too large."""
    values, parts = size(kind, value)
    return values > MOST_VALUES or parts > MOST_PARTS


def size(kind: str, value: Any) -> tuple[int, int]:
    """The entries of all known lists and maps of an object of a kind, written `group/Kind`, and its
    containers and volumes, as OPA's proxy counts them.
    """
    group = GROUPS.get(group_of(kind))
    if group is None:
        return 0, 0
    values, parts = _size(value, group.beside)
    for path in group.templates:
        template = value
        for field in path:
            template = template.get(field) if isinstance(template, Mapping) else None
        more_values, more_parts = _size(template, TEMPLATE)
        values, parts = values + more_values, parts + more_parts
    return values, parts


def _size(value: Any, shape: Any, field: str = "") -> tuple[int, int]:
    """The entries of all lists and maps of a value, and the containers and volumes."""
    if not isinstance(value, Mapping | list):
        return 0, 0
    if shape in (FIELDS, NONE):
        inside = value if isinstance(value, list) else value.values()
        return len(value) + sum(_size(item, shape)[0] for item in inside), 0
    sizes: list[tuple[int, int]] = []
    if isinstance(shape, Mapping) and isinstance(value, Mapping):
        sizes = [_size(value[name], shape[name], name) for name in shape.keys() & value.keys()]
    elif isinstance(shape, list) and isinstance(value, list):
        sizes = [_size(item, shape[0]) for item in value]
    count = 0 if isinstance(shape, Mapping) and "" not in shape else len(value)
    parts = count if isinstance(shape, list) and field in _PARTS else 0
    return count + sum(item[0] for item in sizes), parts + sum(item[1] for item in sizes)


def judgeable(kind: Kind) -> str:
    """A CEL expression: whether the object under review and its old version are small enough.

    API servers plan an expression again for each request, so it should be short: names stand in
    lists, and fields of the same shape share one expression.
    """
    values = list(_values(kind.beside, "o", count()))
    small = f"{_sum(values)} <= {MOST_VALUES}"
    if kind.template is not None:
        values += _values(TEMPLATE, "t", count(len(values)))
        parts = _lengths(_PARTS, "t.spec")
        small = (
            f"[{kind.template}].all(t, {parts} <= {MOST_PARTS} && {_sum(values)} <= {MOST_VALUES})"
        )
    # dyn, because fields are looked up by their names.
    return f"[dyn(object), dyn(oldObject)].filter(o, o != null).all(o, {small})"


def _values(shape: Shape, at: str, numbers: Iterator[int]) -> Iterator[str]:
    """The lengths of all lists and maps."""
    if leaves := [field for field, inner in shape.items() if inner is None]:
        yield _lengths(leaves, at)
    shapes: list[Any] = []
    for field, inner in shape.items():
        if inner == FIELDS:
            yield f"(has({at}.{field}) ? {_fields(f'{at}.{field}', _DEPTH)} : 0)"
        elif inner == NONE:
            yield f"(has({at}.{field}) ? {MOST_VALUES + 1} : 0)"
        elif inner is not None and inner not in shapes:
            shapes.append(inner)
            yield _each(
                [name for name, other_shape in shape.items() if other_shape == inner],
                inner,
                at,
                numbers,
            )


def _lengths(fields: Iterable[str], at: str) -> str:
    """The sum of the lengths of these fields. The field "" is the object itself."""
    term = f" + size({at})" if "" in fields else ""
    names = [field for field in fields if field]
    if len(names) == 1:
        return f"({_is_there(names, f'{at}.{names[0]}')} ? size({at}.{names[0]}) : 0){term}"
    return f"{_names(names)}.map(k, {_is_there(names, f'{at}[k]')} ? size({at}[k]) : 0).sum(){term}"


def _each(fields: list[str], shape: Any, at: str, numbers: Iterator[int]) -> str:
    """The number of values in these fields, which all have the same shape."""
    number = next(numbers)
    key, item = f"k{number}", f"v{number}"
    path = f"{at}.{fields[0]}" if len(fields) == 1 else f"{at}[{key}]"
    if isinstance(shape, list):
        inner = f"size({path}) + {path}.map({item}, {_sum(_values(shape[0], item, numbers))}).sum()"
    else:
        inner = _sum(_values(shape, path, numbers))
    if len(fields) == 1:
        return f"({_is_there(fields, path)} ? {inner} : 0)"
    return f"{_names(fields)}.map({key}, {_is_there(fields, path)} ? {inner} : 0).sum()"


def _is_there(fields: Iterable[str], path: str) -> str:
    """Whether the object has one of the fields, which is `path`: x.field, or x[key]."""
    if path.endswith("]"):
        at, _, key = path[:-1].rpartition("[")
        condition = f"{key} in {at}"
    else:
        condition = f"has({path})"
    return condition if _NULLABLE.isdisjoint(fields) else f"{condition} && {path} != null"


def _fields(at: str, depth: int) -> str:
    """The number of fields that a manager owns; too many if any is below the last level.

    Each level has a name of its own for its values. With a path from the first level, an API server
    needs more than twice the time to compile the expression.
    """
    if depth == 0:
        return f"size({at}) * {MOST_VALUES + 1}"
    key, value = f"p{depth}", f"f{depth}"
    term = f"{at}.map({key}, {at}[{key}]).map({value}, {_fields(value, depth - 1)})"
    return f"size({at}) + {term}.sum()"


def _names(fields: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{field}'" for field in fields) + "]"


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms)

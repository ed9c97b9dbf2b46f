"""Makes of any request one that API servers accept, as far as that shows without one: complete,
with legal values, and for an update with a change that the kind allows.

Sources: Kubernetes' validation of core/v1, apps/v1 and batch/v1 (pkg/apis/*/validation), and its
admission plugins NodeRestriction, ServiceAccount and DefaultTolerationSeconds.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from fairlead.admission.decisions import NOTE
from fairlead.engines.python.api import get
from fairlead.engines.python.pods import CONTAINER_LISTS, TEMPLATES

_MIRROR = "kubernetes.io/config.mirror"
_NODE = "pool2-0"
"""A node of every embedded cluster."""
_LABELS = {"app": "web"}
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_NATIVE = ("cpu", "memory")
# What an API server adds to every pod that does not tolerate it yet.
_DEFAULT_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for key in ("not-ready", "unreachable")
]


def request(drawn: Mapping[str, Any]) -> dict[str, Any]:
    """The request of a review in the form of a case: operation, object, oldObject, userInfo,
    subResource and parent.
    """
    group, kind = drawn["kind"]["group"], drawn["kind"]["kind"]
    path, below = f"{group}/{kind}", drawn.get("subResource")
    user, old = dict(drawn["userInfo"]), drawn["oldObject"]
    if user["username"].startswith("system:node:"):
        user["username"] = f"system:node:{_NODE}"
    manifest = _manifest(path, drawn["object"], user)
    asked = {"operation": drawn["operation"], "userInfo": user, "object": manifest}
    if below:
        asked["subResource"] = below
    if kind == "Scale":
        resource = drawn["resource"]["resource"]
        owner = next(name for name in _SCALED if f"{name}s".lower() == resource)
        template = {"metadata": {"labels": _LABELS}, "spec": {}}
        _complete_template_spec(template["spec"])
        asked["parent"] = {"apiVersion": "apps/v1", "kind": owner, "spec": {"template": template}}
    if old is not None:
        before = _manifest(path, old, user)
        # The garbage collector would remove an object whose owner does not exist.
        before["metadata"].pop("ownerReferences", None)
        for each in (before, manifest):
            if each["metadata"].pop("generateName", None):
                each["metadata"]["name"] = "web"
        asked["oldObject"] = before
        asked["object"] = _updated(path, before, manifest, drawn["object"], below)
    elif path == "/Namespace":
        manifest["metadata"]["name"] = "opened"
    return asked


_SCALED = ("Deployment", "ReplicaSet", "StatefulSet")


def _manifest(path: str, drawn: Mapping[str, Any], user: Mapping[str, Any]) -> dict[str, Any]:
    manifest: dict[str, Any] = copy.deepcopy(dict(drawn))
    manifest["metadata"] = _metadata(manifest["metadata"])
    if path == "autoscaling/HorizontalPodAutoscaler":
        _complete_autoscaler(manifest["spec"])
    if path == "/Pod":
        _complete_pod(manifest, user)
    elif path in TEMPLATES:
        _complete_workload(path, manifest)
    return manifest


def _metadata(drawn: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {**drawn}
    if '"' in metadata.get("name", '"') and "generateName" not in metadata:
        metadata["name"] = "web"
    labels = metadata.get("labels") or {}
    metadata["labels"] = {k: v for k, v in labels.items() if _LABEL_VALUE.fullmatch(v)}
    if NOTE in (annotations := metadata.get("annotations", {})):
        metadata["annotations"] = {**annotations, NOTE: _note(annotations[NOTE])}
    owners = metadata.pop("ownerReferences", [])
    controls = False
    for number, owner in enumerate(owners):
        uid = f"7d9f3f5e-60a5-4a2c-8f6c-{number:012}"
        controller = owner.get("controller", False) and not controls
        controls = controls or controller
        complete = {"apiVersion": "apps/v1", **owner, "uid": uid, "controller": controller}
        metadata.setdefault("ownerReferences", []).append(complete)
    return metadata


def _note(drawn: str) -> str:
    """A note in the only form in which policies write it, unless it is unreadable."""
    try:
        note = json.loads(drawn)
    except ValueError:
        return drawn
    if isinstance(note, dict) and isinstance(note.get("tolerations"), list):
        note["tolerations"] = [_toleration(each) for each in note["tolerations"]]
    return json.dumps(note, sort_keys=True, separators=(",", ":"))


def _complete_autoscaler(spec: dict[str, Any]) -> None:
    spec["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    least = max(1, spec.get("minReplicas") or 1)
    if spec.get("minReplicas") is not None:
        spec["minReplicas"] = least
    spec["maxReplicas"] = max(least, spec["maxReplicas"])


def _complete_pod(pod: dict[str, Any], user: Mapping[str, Any]) -> None:
    spec = pod["spec"]
    _complete_spec(spec)
    spec.pop("overhead", None)  # it needs a RuntimeClass
    spec["schedulerName"] = "nobody"  # nobody else changes the pod
    spec["tolerations"] += [t for t in _DEFAULT_TOLERATIONS if t not in spec["tolerations"]]
    if spec.get("nodeName"):
        spec.pop("schedulingGates", None)
    if "system:nodes" in user.get("groups", ()) and _MIRROR in pod["metadata"].get(
        "annotations", {}
    ):
        _complete_mirror(pod)
    if not spec.get("nodeName"):
        pod["metadata"].get("annotations", {}).pop(_MIRROR, None)


def _complete_mirror(pod: dict[str, Any]) -> None:
    """Nodes may create only mirror pods of their own, which read nothing of the cluster."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": _NODE, "controller": True}
    pod["metadata"]["ownerReferences"] = [{**owner, "uid": "7d9f3f5e-60a5-4a2c-8f6c-0a4f1f2f9a11"}]
    spec = pod["spec"]
    spec["nodeName"] = _NODE
    spec.pop("schedulingGates", None)
    spec.pop("volumes", None)
    for container in _containers(spec):
        container.pop("volumeMounts", None)


def _complete_workload(path: str, workload: dict[str, Any]) -> None:
    kind = path.rpartition("/")[2]
    template = get(workload, *TEMPLATES[path])
    template["metadata"] = _metadata(template.get("metadata", {}))
    template["metadata"].pop("ownerReferences", None)
    template["metadata"].get("annotations", {}).pop(_MIRROR, None)
    for key in ("name", "generateName"):
        template["metadata"].pop(key, None)
    template["metadata"]["labels"] |= _LABELS
    _complete_template_spec(template["spec"])
    spec = workload["spec"]
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        spec["suspend"] = True
    if kind == "CronJob":
        spec["schedule"] = "0 0 1 1 *"
    else:
        spec["selector"] = {"matchLabels": _LABELS}
    if kind == "ReplicationController":
        spec["selector"] = _LABELS
    if kind == "Job":
        spec["manualSelector"] = True


def _complete_template_spec(spec: dict[str, Any]) -> None:
    _complete_spec(spec)
    # Without its service account, no controller can create a pod.
    spec["serviceAccountName"] = "nobody"


def _complete_spec(spec: dict[str, Any]) -> None:
    spec["automountServiceAccountToken"] = False
    spec["tolerations"] = [_toleration(each) for each in spec.get("tolerations") or []]
    spec.pop("ephemeralContainers", None)
    windows = get(spec, "os", "name") == "windows"
    if windows:
        spec.get("securityContext", {}).pop("runAsUser", None)
        spec.pop("resources", None)
    if "resources" in spec:
        spec["resources"] = _resources(spec["resources"], only=_NATIVE)
    for volume in spec.get("volumes", []):
        if volume.get("image") == {}:
            volume["image"] = {"reference": "code"}
    spec.setdefault("containers", [{"name": "c", "image": "nginx"}])
    _complete_containers(spec, windows=windows)


def _complete_containers(spec: dict[str, Any], *, windows: bool = False) -> None:
    """Complete all containers; of several with the same name, the first of the list stays that
    has to have one.
    """
    names: set[str] = set()
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for key in sorted(CONTAINER_LISTS, key=lambda name: name != "containers"):
        unique = []
        for container in spec.get(key) or []:
            if container["name"] in names:
                continue
            names.add(container["name"])
            unique.append(container)
            container["image"] = container.get("image", "").strip() or "nginx"
            mounts = [m for m in container.pop("volumeMounts", []) if m["name"] in volumes]
            if mounts:
                container["volumeMounts"] = mounts
            if key != "initContainers":
                container.pop("restartPolicy", None)
            if windows:
                container.get("securityContext", {}).pop("runAsUser", None)
            if "resources" in container:
                container["resources"] = _resources(container["resources"])
        if key in spec:
            spec[key] = unique


def _resources(drawn: Mapping[str, Any], only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Amounts that are not negative, whole for extended resources, and requests up to the
    limits.
    """
    amounts = {
        part: {
            name: str(_whole(amount) if "/" in name else amount)
            for name, amount in drawn.get(part, {}).items()
            if parse_quantity(amount) >= 0 and (not only or name in only)
        }
        for part in ("requests", "limits")
    }
    requests, limits = amounts["requests"], amounts["limits"]
    for name in {**requests}:
        if "/" in name:
            limits.setdefault(name, requests[name])
            requests[name] = limits[name]
        elif name in limits and parse_quantity(requests[name]) > parse_quantity(limits[name]):
            del requests[name]
    return {part: amount for part, amount in amounts.items() if amount}


def _whole(amount: Any) -> Any:
    return amount if parse_quantity(amount) % 1 == 0 else 1


def _toleration(drawn: Mapping[str, Any]) -> dict[str, Any]:
    toleration = {key: value for key, value in drawn.items() if value != ""}
    if toleration.get("operator") in ("Lt", "Gt"):  # behind a feature gate
        toleration["operator"] = "Equal"
    if "key" not in toleration:
        toleration["operator"] = "Exists"
    if toleration.get("operator") == "Exists":
        toleration.pop("value", None)
    if "tolerationSeconds" in toleration:
        toleration["effect"] = "NoExecute"
    return toleration


def _updated(
    path: str, old: dict[str, Any], new: dict[str, Any], drawn: Mapping[str, Any], below: str | None
) -> dict[str, Any]:
    """The old object with those changes of the new one that its kind allows."""
    if path == "/Pod":
        return _updated_pod(old, new, drawn["spec"], below)
    if path == "batch/Job":  # a suspended one that never started
        template, before = new["spec"]["template"], old["spec"]["template"]
        placement = {
            key: template["spec"].get(key, default)
            for key, default in (("nodeSelector", {}), ("tolerations", []))
        }
        template["spec"] = {**copy.deepcopy(before["spec"]), **placement}
    return new


def _updated_pod(
    old: dict[str, Any], new: dict[str, Any], drawn: Mapping[str, Any], below: str | None
) -> dict[str, Any]:
    pod = copy.deepcopy(old)
    spec, wanted = pod["spec"], new["spec"]
    theirs = {container["name"]: container for container in _containers(wanted)}
    if below == "ephemeralcontainers":
        names = {container["name"] for container in _containers(spec)}
        fields = ("name", "image", "args", "securityContext")
        spec["ephemeralContainers"] = [
            {key: each[key] for key in fields if key in each}
            for each in copy.deepcopy(drawn.get("ephemeralContainers", []))
            if each["name"] not in names
        ]
        _complete_containers(spec, windows=get(spec, "os", "name") == "windows")
        return pod
    if below == "resize":
        for container in spec["containers"]:
            resources = theirs.get(container["name"], {}).get("resources", {})
            if resources:
                container["resources"] = _resources(resources, only=_NATIVE)
        return pod
    pod["metadata"]["labels"] = new["metadata"]["labels"]
    if "ownerReferences" in new["metadata"]:
        pod["metadata"]["ownerReferences"] = new["metadata"]["ownerReferences"]
    if gates := spec.get("schedulingGates"):
        spec["nodeSelector"] = {
            **(wanted.get("nodeSelector") or {}),
            **(spec.get("nodeSelector") or {}),
        }
        spec["schedulingGates"] = [g for g in gates if g in wanted.get("schedulingGates", [])]
    spec["tolerations"] += [t for t in wanted["tolerations"] if t not in spec["tolerations"]]
    for container in _containers(spec):
        container["image"] = theirs.get(container["name"], container)["image"]
    return pod


def _containers(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [container for key in CONTAINER_LISTS for container in spec.get(key) or []]

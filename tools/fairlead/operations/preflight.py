"""Checks whether a cluster can take a deployment before anything is applied, and reports every
obstacle at once.

One check has to wait until OPA is there, just before the webhooks: whether the API server reaches
OPA.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.clusters.base import Cluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import NAMESPACE
from fairlead.kube import api_paths, clients, discovery, labels
from fairlead.kube.errors import Refused
from fairlead.opa import containers
from fairlead.settings.models import Images, Settings

OLDEST = (1, 30)
"""The first version of Kubernetes with matchConditions (KEP-3716) and a container's preStop sleep
(KEP-3960)."""

PROBE = "fairlead-probe"
"""The webhook configuration that exists for a moment, to see whether the API server reaches OPA."""

REACH = 30.0
"""Seconds in which the API server has to reach OPA: the rules of a Service lag its pods by a few.
"""

_STOCK_OPA = re.compile(r"(^|/)opa([:@]|$)")
"""The name of OPA's own images, such as openpolicyagent/opa:1.22.3, in any registry."""

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Finding:
    """What one check found: `detail` says what is missing and what to do, or what is there."""

    check: str
    ok: bool
    detail: str


class _Right(NamedTuple):
    verb: str
    group: str
    resource: str
    namespace: str | None


def require(findings: Iterable[Finding]) -> None:
    """Raises FairleadError with a line for each problem."""
    missing = [f"\n  {finding.check}: {finding.detail}" for finding in findings if not finding.ok]
    if missing:
        raise FairleadError(
            f"the cluster lacks what Fairlead needs, so nothing was applied:{''.join(missing)}"
        )


def check(
    cluster: Cluster, rendered: Sequence[Mapping[str, Any]], settings: Settings
) -> list[Finding]:
    """Every check that changes nothing, of the manifests `rendered` from `settings`; each check has
    at least one finding.

    Raises FairleadError if the API server does not answer.
    """
    objects = clients.Objects(cluster.kubeconfig)
    kinds = objects.kinds()
    findings = [_version(objects), *_kinds(kinds, rendered), *_rights(objects, kinds, rendered)]
    findings.append(_namespace(objects, rendered))
    if cluster.examined and (too_short := settings.certificates.too_short_for_kubelets()):
        findings.append(Finding("certificates", False, too_short))
    findings += _opa_images(rendered)
    remarks = [Finding("settings", True, remark) for remark in settings.remarks()]
    return [*findings, _node_labels(settings.pool_keys()), *remarks]


def _opa_images(rendered: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """A problem if OPA's container has an image of OPA's own, or a copy of it, by its name."""
    return [
        Finding(
            "images",
            False,
            f"images.opa is {container['image']}, which lacks Fairlead's plugin for OPA: leave the "
            f"setting out, as the image {Images().opa} has both, or name a copy of that image",
        )
        for manifest in rendered
        if manifest["kind"] == "Deployment"
        for container in manifest["spec"]["template"]["spec"]["containers"]
        if container["name"] == "opa" and _STOCK_OPA.search(container["image"])
    ]


def reach(objects: clients.Objects, webhook: Mapping[str, Any], *, progress: Progress) -> None:
    """Have the API server call OPA as `webhook`, a MutatingWebhookConfiguration, will. Raises
    FairleadError.

    For a moment there is a configuration that selects only one ConfigMap, by a random label, and
    that ConfigMap is created as a dry run. The configuration has two webhooks: OPA, and one that
    always fails. If the second one fails, OPA was reached. While neither fails, the configuration
    is not in force yet.
    """
    progress.update("webhook", "checking that the API server reaches OPA")
    mark = {"fairlead.dev/probe": secrets.token_hex(8)}
    template = webhook["webhooks"][0]
    first, last = f"opa.{PROBE}.fairlead.dev", f"end.{PROBE}.fairlead.dev"
    targets = {first: template["clientConfig"], last: _nowhere(template["clientConfig"])}
    probe = {
        "apiVersion": webhook["apiVersion"],
        "kind": webhook["kind"],
        "metadata": {"name": PROBE, "labels": webhook["metadata"].get("labels", {})},
        "webhooks": [
            {
                "name": name,
                "clientConfig": target,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": template["timeoutSeconds"],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "objectSelector": {"matchLabels": mark},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["configmaps"],
                    }
                ],
            }
            for name, target in targets.items()
        ],
    }
    metadata = {"name": PROBE, "namespace": NAMESPACE, "labels": mark}

    def is_called() -> bool:
        try:
            objects.apply(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dry_run=True
            )
        except Refused as error:
            if f'"{last}"' in error.message:
                return True
            raise
        return False

    try:
        objects.apply(probe)
        waiting.until(is_called, deadline=REACH, what="the API server reaches OPA", pause=0.2)
        progress.finish("webhook", "the API server reaches OPA")
    except FairleadError as error:
        raise FairleadError(
            f"{error}: the webhook was left as it was. Let the control plane connect to port "
            f"{containers.OPA_PORT} of "
            "OPA's pods (private clusters have a firewall rule for that), and deploy again"
        ) from error
    finally:
        objects.delete(probe["apiVersion"], probe["kind"], PROBE)


def _nowhere(target: Mapping[str, Any]) -> dict[str, Any]:
    """The target with a path that OPA refuses to everyone."""
    if "url" in target:
        return {**target, "url": f"{target['url'].rstrip('/')}/{PROBE}"}
    return {**target, "service": {**target["service"], "path": f"/{PROBE}"}}


def _version(objects: clients.Objects) -> Finding:
    version = objects.call("GET", "/version", action="cannot read the version")
    parts = (version["major"], version["minor"])
    number = tuple(int(re.sub(r"\D.*", "", part) or 0) for part in parts)
    if number >= OLDEST:
        return Finding("version", True, version["gitVersion"])
    oldest = ".".join(map(str, OLDEST))
    return Finding(
        "version",
        False,
        f"the API server is {version['gitVersion']}, and Fairlead needs {oldest} or newer: upgrade "
        "the control plane",
    )


def _kinds(kinds: Sequence[discovery.Kind], rendered: Iterable[Mapping[str, Any]]) -> list[Finding]:
    available = {(kind.api_version, kind.name) for kind in kinds}
    required = {(manifest["apiVersion"], manifest["kind"]) for manifest in rendered}
    missing = [
        Finding("api", False, f"{version} {name} is not served: {_way_out(version)}")
        for version, name in sorted(required - available)
    ]
    return missing or [Finding("api", True, f"all {len(required)} kinds are served")]


def _way_out(version: str) -> str:
    if version.startswith("cert-manager.io/"):
        return "install cert-manager, or remove the setting `certificates: cert-manager`"
    return "switch it on by the API server's flag --runtime-config"


def _rights(
    objects: clients.Objects, kinds: Sequence[discovery.Kind], rendered: Iterable[Mapping[str, Any]]
) -> list[Finding]:
    if _may(objects, _Right("*", "*", "*", None)):
        rights = {*_needed(kinds, rendered), *(rule for _, rule in _granted(rendered))}
        return [Finding("rights", True, f"all {len(rights)} permissions are held")]
    answers: dict[_Right, bool] = {}

    def may(rule: _Right) -> bool:
        if rule not in answers:
            answers[rule] = _may(objects, rule)
        return answers[rule]

    missing = [rule for rule in dict.fromkeys(_needed(kinds, rendered)) if not may(rule)]
    findings = [
        Finding(
            "rights",
            False,
            f"you lack {_described(rights)}: ask an administrator to grant them",
        )
        for rights in _by_place(missing)
    ]
    # RBAC lets people grant only the rights that they have, unless they have the verb escalate.
    granted = [
        rule
        for role, rule in _granted(rendered)
        if rule not in missing
        and not may(_Right("escalate", _RBAC, role, rule.namespace))
        and not may(rule)
    ]
    findings += [
        Finding(
            "rights",
            False,
            f"you lack {_described(rights)}, which Fairlead's roles grant: ask an administrator to "
            "grant it, or the verb escalate on roles and clusterroles",
        )
        for rights in _by_place(list(dict.fromkeys(granted)))
    ]
    return findings or [Finding("rights", True, f"all {len(answers)} permissions are held")]


def _needed(kinds: Sequence[discovery.Kind], rendered: Iterable[Mapping[str, Any]]) -> list[_Right]:
    """The rights that a deployment needs, except those that it grants to others."""
    plural = {(kind.api_version, kind.name): kind for kind in kinds}
    rights = []
    for manifest in rendered:
        kind = plural.get((manifest["apiVersion"], manifest["kind"]))
        if kind is not None:
            namespace = NAMESPACE if kind.namespaced else None
            rights += [
                _Right(verb, kind.group, kind.plural, namespace)
                for verb in ("get", "create", "patch")
            ]
    further = {
        ("", "configmaps"): ("list", "delete"),  # the history
        ("", "secrets"): ("list",),
        ("apps", "deployments"): ("list",),
        ("apps", "replicasets"): ("list",),
        ("", "pods"): ("list", "patch"),
        # a websocket's verb is get before Kubernetes 1.35, create from then on
        ("", "pods/portforward"): ("get", "create"),
        ("", "pods/log"): ("get",),
    }
    for (group, resource), verbs in further.items():
        rights += [_Right(verb, group, resource, NAMESPACE) for verb in verbs]
    # else its own guards would refuse the deployment
    rights.append(_Right("administer", "fairlead.dev", "policies", None))
    rights.append(_Right("delete", _ADMISSION, "mutatingwebhookconfigurations", None))  # the probe
    return rights


def _granted(rendered: Iterable[Mapping[str, Any]]) -> list[tuple[str, _Right]]:
    """The rights that the roles grant, each with the resource of its role (roles or
    clusterroles).
    """
    rights = []
    for manifest in rendered:
        if manifest["kind"] in ("Role", "ClusterRole"):
            namespace = manifest["metadata"].get("namespace")
            for rule in manifest["rules"]:
                combined = itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])
                rights += [
                    (f"{manifest['kind'].lower()}s", _Right(*parts, namespace))
                    for parts in combined
                ]
    return rights


def _by_place(rights: Sequence[_Right]) -> list[list[_Right]]:
    places: dict[tuple[str, ...], list[_Right]] = {}
    for rule in rights:
        places.setdefault((rule.group, rule.resource, rule.namespace or ""), []).append(rule)
    return list(places.values())


def _described(rights: Sequence[_Right]) -> str:
    """Several verbs on the same resource."""
    return f"{', '.join(rule.verb for rule in rights)} on {_place(rights[0])}"


def _place(rule: _Right) -> str:
    resource = f"{rule.resource}.{rule.group}" if rule.group else rule.resource
    return (
        f"{resource} in namespace {rule.namespace}"
        if rule.namespace
        else f"{resource} (whole cluster)"
    )


def _may(objects: clients.Objects, rule: _Right) -> bool:
    resource, _, subresource = rule.resource.partition("/")
    attributes = {
        "verb": rule.verb,
        "group": rule.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": rule.namespace or "",
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    action = "cannot ask for one's rights"
    answer = objects.call("POST", api_paths.path_of(review, None), review, action=action)
    return (answer.get("status") or {}).get("allowed") is True


def _namespace(objects: clients.Objects, rendered: Sequence[Mapping[str, Any]]) -> Finding:
    """Whether the namespace, if it exists, accepts our pods: quotas, limits and other webhooks may
    refuse them.
    """
    title = f'namespace "{NAMESPACE}"'
    try:
        namespace = objects.get("v1", "Namespace", NAMESPACE)
        if namespace is None:
            return Finding("namespace", True, f"{title} will be created")
        if namespace["metadata"].get("deletionTimestamp"):
            problem = f"{title} is being deleted: deploy when it is gone"
            return Finding("namespace", False, problem)
        templates = [m["spec"]["template"] for m in rendered if m["kind"] == "Deployment"]
        if not templates:
            return Finding("namespace", True, f"{title} is there, and no pods are needed")
        template, spec = templates[0], dict(templates[0]["spec"])
        if objects.get("v1", "ServiceAccount", spec["serviceAccountName"], NAMESPACE) is None:
            del spec["serviceAccountName"]
        metadata = {**template["metadata"], "name": PROBE, "namespace": NAMESPACE}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        objects.apply(pod, dry_run=True)
    except Refused as error:
        # A deployment does not need the right to create pods, and some webhooks support no dry run.
        if "cannot create resource" in error.message or "does not support dry run" in error.message:
            unknown = f"cannot check whether {title} accepts the pods: {error.message}"
            return Finding("namespace", True, unknown)
        way_out = "change the quota, limit or policy that says so, or exempt this namespace from it"
        problem = f"{title} refuses the pods ({error.message}): {way_out}"
        return Finding("namespace", False, problem)
    return Finding("namespace", True, f"{title} accepts the pods")


def _node_labels(keys: Sequence[str]) -> Finding:
    """Who can change the pool of a node. Whether the plugin NodeRestriction is on, no client can
    see.
    """
    own_keys = [key for key in keys if labels.kubelet_may_set(key)]
    if own_keys:
        way_out = (
            "if you do not trust nodes with that, set nodeLabel: node-restriction "
            "(docs/security.md)"
        )
        return Finding(
            "nodes",
            True,
            f"a node can set its own {', '.join(own_keys)} when it registers, but not later: "
            f"{way_out}",
        )
    protected = (
        f"no node can set its own {', '.join(keys)}, if the API server's admission plugin "
        "NodeRestriction is on"
    )
    return Finding("nodes", True, protected)

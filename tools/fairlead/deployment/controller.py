"""`fairlead controller` as it is deployed: its arguments, its probe, and its objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath, PurePosixPath
from typing import Any

from fairlead.common import durations
from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import ACCESS, ACCESS_ENDS, CONTROLLER, NAMESPACE
from fairlead.deployment.sidecars import served
from fairlead.kube import admission_reviews
from fairlead.kube.pod_templates import TEMPLATES
from fairlead.opa.containers import CONTROLLER_PORT, Liveness
from fairlead.settings.models import NEVER, Settings

SCOPE = "access"
"""The scope of its token (fairlead.settings.services)."""
TOKEN = PurePosixPath("/access")
"""Where its pod mounts the token."""
LIVENESS = Liveness(CONTROLLER_PORT, "/live", period=5, timeout=5, failures=3, startup=60)
ADMISSION = "admissionregistration.k8s.io/v1"
MEMORY = {CONTROLLER: 512, ACCESS_ENDS: 160}
"""The most MiB of memory of each container. Tests keep to them (test_access_memory.py). The
controller takes 90, and twice CHECKED while it checks policies."""
CHECKED = 192
"""The most MiB of memory of a program that checks policies."""

_APPS, _RBAC, _NETWORK = "apps/v1", "rbac.authorization.k8s.io/v1", "networking.k8s.io/v1"
_KEEPER, _SWITCHES = "fairlead-keeper", "fairlead-switches"
OF_ACCESS = (
    (_APPS, "Deployment", ACCESS_ENDS, NAMESPACE),
    (_NETWORK, "NetworkPolicy", f"{ACCESS}-to-opa", NAMESPACE),
    (_NETWORK, "NetworkPolicy", ACCESS, NAMESPACE),
    *((_RBAC, kind, ACCESS, None) for kind in ("ClusterRoleBinding", "ClusterRole")),
    *((_RBAC, kind, ACCESS_ENDS, None) for kind in ("ClusterRoleBinding", "ClusterRole")),
    ("v1", "ServiceAccount", ACCESS_ENDS, NAMESPACE),
)
"""The objects of 56-access.yaml, as (apiVersion, kind, name, namespace): a deployment without it
deletes them."""
FORMER = (
    (_APPS, "Deployment", ACCESS, NAMESPACE),
    (_APPS, "Deployment", _KEEPER, NAMESPACE),
    *(
        (_RBAC, kind, name, NAMESPACE)
        for name in (ACCESS, _KEEPER, _SWITCHES)
        for kind in ("RoleBinding", "Role")
    ),
    *(
        (_RBAC, kind, name, None)
        for name in (_KEEPER, _SWITCHES)
        for kind in ("ClusterRoleBinding", "ClusterRole")
    ),
    ("coordination.k8s.io/v1", "Lease", ACCESS, NAMESPACE),
    ("v1", "ServiceAccount", ACCESS, NAMESPACE),
    ("v1", "ServiceAccount", _KEEPER, NAMESPACE),
    (ADMISSION, "ValidatingWebhookConfiguration", "placement-policies.fairlead.dev", None),
    *(
        (ADMISSION, kind, "fairlead-placement-policies", None)
        for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
    ),
)
"""What versions deployed in which several processes did the controller's work, or in which Policies
were PlacementPolicies; every deployment deletes them."""

_MADE = (
    "Secret",
    "ConfigMap",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)


def makes(manifest: Mapping[str, Any]) -> bool:
    """Whether the controller makes this object where settings are an object. All others, such as
    Deployments and rights, have to be applied.
    """
    return manifest["kind"] in _MADE


OFF, REQUESTER = "access/off.yaml.j2", "access/requester.yaml.j2"
"""The templates of the guard that stands where access was switched off, and of the policy that
writes down who asks for access."""
OFF_OBJECTS = tuple(
    (ADMISSION, kind, "fairlead-access-off", None)
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
)
REQUESTER_OBJECTS = tuple(
    (ADMISSION, kind, "fairlead-access-requester", None)
    for kind in ("MutatingAdmissionPolicyBinding", "MutatingAdmissionPolicy")
)
"""Their objects, as (apiVersion, kind, name, namespace)."""


def audited() -> dict[str, list[str]]:
    """The resources about which there are findings, by their API groups: pods, workloads, and what
    decides about them.
    """
    resources: dict[str, list[str]] = {"": ["namespaces", "nodes", "pods"]}
    for group, kind in TEMPLATES:
        resources.setdefault(group, []).append(admission_reviews.plural(kind))
    return {group: sorted(names) for group, names in resources.items()}


def renewal(settings: Settings, *, rolls: bool) -> list[str]:
    """The flags for the renewal of the certificate; none if Fairlead does not renew it. If it
    `rolls`, the renewal replaces OPA's pods, as their sidecar does not read its CA again.
    """
    policy = settings.certificates
    if policy.by != "fairlead":
        return []
    return [
        f"{flags.CERTIFICATE_LIFE}={policy.life}",
        f"{flags.RENEW_BEFORE}={durations.text(policy.renewal)}",
        *([flags.ROLL_OUT] if rolls else []),
    ]


def arguments(
    settings: Settings,
    listen: str,
    renewal_flags: Sequence[str],
    *,
    opa_url: str,
    tls: PurePath,
    token: PurePath,
) -> list[str]:
    """The arguments of `fairlead`, to ask the OPA at `opa_url` about access and to serve health at
    `listen`. `tls` is the folder of OPA's certificate, `token` that of the token.
    """
    access = settings.access
    of_access = (
        [
            f"{flags.OPA_URL}={opa_url}",
            f"{flags.OPA_AUTH_TOKEN_FILE}={token / 'token'}",
            *([flags.RECHECK] if access.recheck else []),
        ]
        if access and access.own_controller
        else []
    )
    ca = f"{flags.OPA_CA_FILE}={tls / 'ca.crt'}"
    findings = [] if settings.findings == NEVER else [f"{flags.FINDINGS}={settings.findings}"]
    return ["controller", ca, *findings, *renewal_flags, *of_access, *served(tls, listen)]


def ends_arguments(listen: str, *, tls: PurePath) -> list[str]:
    """The arguments of `fairlead` for the second process, which ends what is overdue."""
    return ["controller", flags.OVERDUE, *served(tls, listen)]

"""`fairlead controller` as it is deployed: its arguments, its probe, and its objects."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath

from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import ACCESS, ACCESS_ENDS, NAMESPACE
from fairlead.opa.containers import SYNC_PORT, Liveness
from fairlead.settings.access import Access

SCOPE = "access"
"""The scope of its token (fairlead.settings.services)."""
TOKEN = PurePosixPath("/access")
"""Where its pod mounts the token."""
LIVENESS = Liveness(SYNC_PORT, "/live", period=5, timeout=5, failures=3, startup=60)
ADMISSION = "admissionregistration.k8s.io/v1"
MEMORY = {ACCESS: 256, ACCESS_ENDS: 160}
"""The most MiB of memory of each container. Tests keep to them (test_access_memory.py)."""
OBJECTS = (
    ("apps/v1", "Deployment", ACCESS, NAMESPACE),
    ("apps/v1", "Deployment", ACCESS_ENDS, NAMESPACE),
    ("networking.k8s.io/v1", "NetworkPolicy", f"{ACCESS}-to-opa", NAMESPACE),
    ("networking.k8s.io/v1", "NetworkPolicy", ACCESS, NAMESPACE),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ACCESS, None),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", ACCESS, None),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", ACCESS_ENDS, None),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", ACCESS_ENDS, None),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", ACCESS, NAMESPACE),
    ("rbac.authorization.k8s.io/v1", "Role", ACCESS, NAMESPACE),
    ("coordination.k8s.io/v1", "Lease", ACCESS, NAMESPACE),
    ("v1", "ServiceAccount", ACCESS, NAMESPACE),
    ("v1", "ServiceAccount", ACCESS_ENDS, NAMESPACE),
)
"""The objects of 56-access-controller.yaml, as (apiVersion, kind, name, namespace): a deployment
without it deletes them."""

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


def arguments(
    settings: Access, opa_url: str, listen: str, *, tls: PurePath, token: PurePath
) -> list[str]:
    """The arguments of `fairlead`, to ask the OPA at `opa_url` and to serve health at `listen`.
    `tls` is the folder of OPA's certificate, `token` that of the token.
    """
    return [
        "controller",
        f"{flags.OPA_URL}={opa_url}",
        f"{flags.OPA_CA_FILE}={tls / 'ca.crt'}",
        f"{flags.OPA_AUTH_TOKEN_FILE}={token / 'token'}",
        *([flags.RECHECK] if settings.recheck else []),
        *_served(listen, tls),
    ]


def ends_arguments(listen: str, *, tls: PurePath) -> list[str]:
    """The arguments of `fairlead` for the second process, which ends what is overdue."""
    return ["controller", flags.OVERDUE, *_served(listen, tls)]


def _served(listen: str, tls: PurePath) -> list[str]:
    return [
        f"{flags.HEALTH_ENDPOINT}={listen}",
        f"{flags.TLS_CERT_FILE}={tls / 'tls.crt'}",
        f"{flags.TLS_PRIVATE_KEY_FILE}={tls / 'tls.key'}",
    ]

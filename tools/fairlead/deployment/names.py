"""The names of objects, labels and annotations that several modules share.

Standard library only: the sidecar reads them. Templates get them as `names`.
"""

from __future__ import annotations

from fairlead.kube import own_kinds

NAMESPACE = "fairlead"
"""The namespace of OPA and all that belongs to it; no policy applies to it."""

EXEMPT = ("kube-system", "kube-public", "kube-node-lease", NAMESPACE)
"""Namespaces that no policy applies to, so that the cluster and OPA can start. No setting adds
one."""
CLUSTER_ROLES = (
    "fairlead-admin",
    "fairlead-controller",
    "fairlead-opa",
    "fairlead-pool-admin",
)
"""The ClusterRoles, and the ClusterRoleBindings of the same names."""

OPA = "opa"
"""The Deployment of OPA, and its service account."""
CONTROLLER = "fairlead-controller"
"""The Deployment of `fairlead controller`, its service account and rights, the Lease of the one
that gives access, and the field manager of what it changes."""
CERTIFICATE_LEASE = "fairlead-keeper"
"""The Lease of whoever changes the certificate: a controller or a command."""
LIFECYCLE_LEASE = "fairlead-lifecycle"
"""The Lease of the controller that brings settings and policies into force."""
ACCESS = "fairlead-access"
"""The rights to carry out transient role bindings, the guard of these, the component of their
Events, and the field manager of what comes of them."""
ACCESS_ENDS = "fairlead-access-ends"
"""The Deployment that ends the access that no controller has ended, and its service account."""
TRANSIENT_LABEL = "access.fairlead.dev/transient"
"""The label of all bindings that come of transient ones; its value is `true`. Nobody else may set
it (86-access.yaml.j2), so that a list of these holds no object that somebody else has sized."""
UNTIL_ANNOTATION = "access.fairlead.dev/valid-until"
"""The annotation of these bindings with their end."""
WEBHOOKS = "fairlead"
"""Both webhook configurations."""
GUARDS = (
    "fairlead-objects",
    "fairlead-cluster-objects",
    "fairlead-exceptions",
    "fairlead-pool-label",
    "fairlead-exempt",
    "fairlead-node-labels",
    "fairlead-access",
    "fairlead-access-accounts",
    "fairlead-access-advice",
    "fairlead-access-approver",
    "fairlead-access-bindings",
    "fairlead-access-off",
)
"""The admission policies that guard Fairlead's objects, nodes and access, and their bindings."""
POLICIES = "fairlead-policies"
"""The ConfigMap with the policies."""
HISTORY = "fairlead-history"
"""The ConfigMap with the entries of the history."""
TOKEN_SECRET = "opa-token"  # noqa: S105 - a name


def scoped_secret(scope: str) -> str:
    """The name of the Secret with the token of a scope; see fairlead.settings.services."""
    return f"{TOKEN_SECRET}-{scope}"


FINDINGS_LEASE = "fairlead-findings"
"""The Lease of the controller that looks for findings."""
TLS_SECRET = "opa-tls"  # noqa: S105 - a name

PART_OF = "app.kubernetes.io/part-of"
"""The label of all objects; its value is `fairlead`."""
OPA_PODS = "app.kubernetes.io/name=opa"
"""The selector of OPA's pods."""
POLICY_LABEL = ("openpolicyagent.org/policy", "rego")
"""The label, and its value, of ConfigMaps that hold policies; kube-mgmt's."""
DATA_LABEL = ("openpolicyagent.org/data", "opa")
"""The label, and its value, of ConfigMaps that hold data; kube-mgmt's."""

INTENT_LABEL = "fairlead.dev/intent"
"""The label of the admission policies that belong to one intent."""
REVISION_ANNOTATION = "fairlead.dev/revision"
SETTINGS_ANNOTATION = "fairlead.dev/settings"
"""Annotations of the ConfigMap with the policies: their revision, and the settings that they
were made with."""
ENGINE_ANNOTATION = "fairlead.dev/engine"
"""The annotation of the same ConfigMap that names the engine, if that is not OPA."""
OPA_ENGINE, PYTHON_ENGINE = "opa", "python"
"""The engines that API servers ask by webhooks, and that run in the pods of the Deployment."""
CEL_ENGINE = "cel"
"""The engine whose policies API servers evaluate themselves."""
OBJECTS = "objects.yaml"
"""The key of that ConfigMap with the objects by which such an engine enforces the policies."""
PARAMETERS_GROUP = own_kinds.GROUP
"""The API group of the parameters of admission policies."""
OPA_PROGRAM = "/usr/local/bin/fairlead-opa"
"""OPA with the plugin, in Fairlead's image (integration/image/Dockerfile)."""
OBJECTS_WEBHOOK = "objects.fairlead.dev"
"""The webhook that asks the controller about Fairlead and Policies, and its configuration."""
OBJECT_REVIEWS = "/objects"
"""The path at which the controller answers it."""
BUNDLES_ANNOTATION = "fairlead.dev/bundles"
"""The annotation of OPA's Deployment with the URL of the signed bundles that its OPAs follow; none
if a sidecar loads their policies."""
CREDENTIALS_ANNOTATION = "fairlead.dev/credentials"
"""The annotation of OPA's pods that replaces them if the credentials change, for sidecars that
read these once."""
CAS_ANNOTATION = "fairlead.dev/authorities"
"""The annotation of OPA's pods by which the controller replaces them if the CAs change, for the
same sidecars."""
RENEWED_BY = "fairlead.dev/renewed-by"
"""The annotation of the Secret opa-tls that names what renews it, if that is not Fairlead in the
cluster."""

STATUS = "openpolicyagent.org/kube-mgmt-status"
"""The annotation that says whether OPA took a ConfigMap; kube-mgmt's."""
RETRIES = "openpolicyagent.org/kube-mgmt-retries"
"""The annotation of policies that says how often kube-mgmt will try again after an error: "0" if a
status is final.

kube-mgmt loads files one by one, so a first error may only mean that a later file is missing.
"""
REPLICA_STATUS = "status.fairlead.dev/"
"""The prefix of the annotations in which each replica reports the status of its own OPA; the
replica's name follows."""

CONFIRMED = "fairlead_confirmed"
"""The document in OPA that says up to when OPA is known to hold all that the cluster says; see
policies/health.rego.

{"at": nanoseconds since the epoch, "within": seconds for which OPA is Ready with it, absent for no
limit}
"""

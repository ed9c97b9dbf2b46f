"""The flags that deployments start `fairlead sync`, `controller` and `serve` with.

The commands read them (fairlead.cli), and fairlead.deployment.sidecars writes them. kube-mgmt gets
the same flags, as far as it knows them. The defaults are those of fairlead.sync.sidecar.Options.
"""

from __future__ import annotations

KUBECONFIG = "--kubeconfig"
OPA_URL = "--opa-url"
OPA_CA_FILE = "--opa-ca-file"
OPA_AUTH_TOKEN_FILE = "--opa-auth-token-file"  # noqa: S105 - a name
NAMESPACE_SELECTOR = "--namespace-selector"
NAMESPACE_LABELS = "--namespace-labels"
REPLICATE = "--replicate"
REPLICATE_CLUSTER = "--replicate-cluster"
REPLICATE_FIELDS = "--replicate-fields"
MAX_STALENESS = "--max-staleness"
LOG_DECISIONS = "--log-decisions"
RECHECK = "--recheck"
OVERDUE = "--overdue"
REPLICA = "--replica"
HEALTH_ENDPOINT = "--health-endpoint"
TLS_CERT_FILE = "--tls-cert-file"
TLS_PRIVATE_KEY_FILE = "--tls-private-key-file"
CERTIFICATE_LIFE = "--certificate-life"
RENEW_BEFORE = "--renew-before"
FINDINGS = "--findings"
WEBHOOK_URL = "--webhook-url"
CONTROLLER_URL = "--controller-url"
OPAS = "--opas"
SIDECARS = "--sidecars"
ROLL_OUT = "--roll-out"
DEPLOYED = "--deployed"
LISTEN = "--listen"
WORKERS = "--workers"

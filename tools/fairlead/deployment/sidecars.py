"""The two sidecars of OPA, and the server that takes the place of OPA and its sidecar with the
engine `python`: their arguments, abilities and liveness probes, and which one is the default.

To add one, write a class here, its line in SIDECARS, and its container in
integration/deploy/sidecars.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from fairlead.common.errors import UsageError
from fairlead.deployment import component_flags as flags
from fairlead.deployment.names import NAMESPACE, OPA_ENGINE, PYTHON_ENGINE
from fairlead.kube import resources
from fairlead.kube.resources import Resource
from fairlead.opa.containers import OPA_PORT, SYNC_PORT, Files, Liveness
from fairlead.policy import exceptions
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.tables import namespace_labels
from fairlead.programs.toolchain import installed
from fairlead.settings.models import DecisionLogs, Settings

_BATCHES = (
    # Seconds between two uploads of decisions, and before a failed upload is repeated.
    "reporting.min_delay_seconds=1",
    "reporting.max_delay_seconds=2",
    # Bytes that OPA keeps while it cannot upload; beyond that it drops the oldest.
    f"reporting.buffer_size_limit_bytes={16 * 1024 * 1024}",
)


class Sidecar(ABC):
    """What keeps an OPA's policies and data current."""

    name: str

    engine = OPA_ENGINE
    """The engine that decides: OPA_ENGINE for what stands beside OPA, PYTHON_ENGINE for a server
    that takes its place."""

    look_up = False
    """Whether it answers lookups of namespaces that are not replicated; see policies/namespaces."""

    unloads = True
    """Whether it removes from OPA what is removed from a ConfigMap."""

    rereads = True
    """Whether it reads its token and its CA file again when they change; otherwise it is
    restarted."""

    liveness: Liveness
    """When it is restarted: because it hangs, or because its OPA restarted."""

    def require(self, settings: Settings) -> None:
        """Raises UsageError with all that the settings ask for and it cannot do."""
        if problems := list(self.problems(settings)):
            raise UsageError("\n".join(problems))

    def problems(self, settings: Settings) -> Iterable[str]:
        """What the settings ask for and it cannot do; some can do all."""
        return ()

    def command(self) -> list[str]:
        """The command that starts it on this machine, without arguments. Raises UsageError if its
        program is not installed.
        """
        return [sys.executable, "-m", "fairlead"]

    @abstractmethod
    def arguments(
        self, files: Files, policies: PolicySet, opa_address: str, listen: str
    ) -> list[str]:
        """Its arguments, for the OPA at `opa_address`. It may serve at `listen` (host:port)."""

    def opa_environment(self, files: Files, address: str) -> Mapping[str, str]:
        """Environment variables of its OPA, if it serves at `address` (host:port)."""
        return {}

    def decision_logs(self, files: Files, settings: Settings, address: str) -> list[str]:
        """The flags for OPA's decision logs, if the sidecar serves at `address` (host:port)."""
        return _uploaded(files, settings.decision_logs)


class Sync(Sidecar):
    """`fairlead sync`."""

    name = "sync"
    look_up = True
    # Not /health: a restart does not help if the API server or OPA is away.
    liveness = Liveness(SYNC_PORT, "/live", period=5, timeout=5, failures=3, startup=60)

    def arguments(
        self, files: Files, policies: PolicySet, opa_address: str, listen: str
    ) -> list[str]:
        settings = policies.settings
        label, labels = settings.namespace_label, namespace_labels(policies.active, settings)
        # With a default pool, or if policies select by other labels, every namespace matters;
        # otherwise only those that name a pool.
        selector: Sequence[str] = (
            []
            if settings.default_pool or labels
            else [f"{flags.NAMESPACE_SELECTOR}={label},{label}!="]
        )
        return [
            "sync",
            f"{flags.OPA_URL}=https://{opa_address}",
            f"{flags.OPA_CA_FILE}={files.ca}",
            f"{flags.OPA_AUTH_TOKEN_FILE}={files.token / 'token'}",
            *selector,
            f"{flags.NAMESPACE_LABELS}={','.join([label, *labels])}",
            *replication(_replicated(settings)),
            *(
                [f"{flags.MAX_STALENESS}={settings.max_staleness}"]
                if settings.max_staleness
                else []
            ),
            *(
                [flags.LOG_DECISIONS]
                if settings.decision_logs.console and not settings.decision_logs.service
                else []
            ),
            *served(files.tls, listen),
        ]

    def opa_environment(self, files: Files, address: str) -> dict[str, str]:
        return {
            "FAIRLEAD_NAMESPACES_URL": f"https://{address}/v1/namespaces",
            "FAIRLEAD_CA_FILE": str(files.ca),
        }

    def decision_logs(self, files: Files, settings: Settings, address: str) -> list[str]:
        if settings.decision_logs.service:
            return super().decision_logs(files, settings, address)
        return [
            f"--set=services.sync.url=https://{address}",
            # OPA would read a CA only once, and reject the sidecar after `fairlead rotate cert`.
            # Another server on loopback would learn what logs show, and no credentials.
            "--set=services.sync.allow_insecure_tls=true",
            *_logged(settings.decision_logs, "service=sync", *_BATCHES),
        ]


class KubeMgmt(Sidecar):
    """kube-mgmt, the upstream sidecar (github.com/open-policy-agent/kube-mgmt).

    It does not notice if its OPA restarts, and its health endpoint (plain HTTP) keeps saying 200.
    So its liveness probe asks for OPA's readiness instead: kube-mgmt is restarted while OPA is not
    ready, and then loads everything.
    """

    name = "kube-mgmt"
    unloads = False
    rereads = False
    liveness = Liveness(OPA_PORT, "/health/ready", period=1, timeout=2, failures=3, startup=60)

    def problems(self, settings: Settings) -> Iterator[str]:
        """See Sidecar.problems."""
        if settings.max_staleness is not None:
            yield "maxStaleness: kube-mgmt confirms no data: use --sidecar sync, or leave it out"

    def command(self) -> list[str]:
        if variable := os.environ.get("FAIRLEAD_KUBE_MGMT"):
            path = Path(variable).absolute()
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise UsageError(
                    f"FAIRLEAD_KUBE_MGMT names {variable}, which is not a program: name "
                    "kube-mgmt's own file"
                )
            return [str(path)]
        program = next(installed.on_path("kube-mgmt"), None)
        if program is None:
            raise UsageError(
                "no program kube-mgmt found: put it on PATH, set FAIRLEAD_KUBE_MGMT to its file, "
                "or use --sidecar sync"
            )
        return [str(program)]

    def arguments(
        self, files: Files, policies: PolicySet, opa_address: str, listen: str
    ) -> list[str]:
        replicated = replication(_replicated(policies.settings))
        return [
            f"{flags.OPA_URL}=https://{opa_address}/v1",
            f"{flags.OPA_CA_FILE}={files.ca}",
            f"{flags.OPA_AUTH_TOKEN_FILE}={files.token / 'token'}",
            "--enable-policies",
            "--enable-data",
            f"--namespaces={NAMESPACE}",
            f"{flags.REPLICATE_CLUSTER}=v1/namespaces",
            # kube-mgmt replicates whole objects.
            *(flag for flag in replicated if not flag.startswith(flags.REPLICATE_FIELDS)),
        ]

    def opa_environment(self, files: Files, address: str) -> dict[str, str]:
        return {"FAIRLEAD_MAPPED_ONLY": "true"}  # see policies/node_pool


class Serve(Sidecar):
    """`fairlead serve`, which decides by policies in Python. It follows the policies' ConfigMap and
    the namespaces by itself, with rights to read alone.
    """

    name = "serve"
    engine = PYTHON_ENGINE
    liveness = Liveness(OPA_PORT, "/health", period=5, timeout=5, failures=3, startup=60)

    def problems(self, settings: Settings) -> Iterator[str]:
        """See Sidecar.problems."""
        for key, value in (
            ("maxStaleness", settings.max_staleness),
            ("replicate", settings.replicate),
            ("decisionLogs.service", settings.decision_logs.service),
            ("decisionLogs.sample", settings.decision_logs.sample != 1),
        ):
            if value:
                yield (
                    f"{key} is about OPA, and has no effect with the engine {self.engine}: leave "
                    "it out"
                )

    def arguments(
        self, files: Files, policies: PolicySet, opa_address: str, listen: str
    ) -> list[str]:
        return [
            "serve",
            flags.DEPLOYED,
            f"{flags.LISTEN}={listen}",
            f"{flags.TLS_CERT_FILE}={files.tls / 'tls.crt'}",
            f"{flags.TLS_PRIVATE_KEY_FILE}={files.tls / 'tls.key'}",
            f"{flags.WORKERS}=2",
        ]


def _replicated(settings: Settings) -> list[Resource]:
    """What OPA gets besides namespaces."""
    return [exceptions.RESOURCE, *(replicated.named() for replicated in settings.replicate)]


def replication(replicated: Iterable[Resource]) -> list[str]:
    """The flags that have these resources replicated."""
    arguments = []
    for resource in replicated:
        flag = flags.REPLICATE if resource.namespaced else flags.REPLICATE_CLUSTER
        arguments.append(f"{flag}={resource}")
        if resource.fields:
            paths = ",".join(map(resources.dotted, resource.fields))
            arguments.append(f"{flags.REPLICATE_FIELDS}={resource}={paths}")
    return arguments


def served(tls: PurePath, listen: str) -> list[str]:
    """The flags to serve health and metrics at `listen`, with the certificate in the folder
    `tls`.
    """
    return [
        f"{flags.HEALTH_ENDPOINT}={listen}",
        f"{flags.TLS_CERT_FILE}={tls / 'tls.crt'}",
        f"{flags.TLS_PRIVATE_KEY_FILE}={tls / 'tls.key'}",
    ]


def _uploaded(files: Files, logs: DecisionLogs) -> list[str]:
    """The flags to log decisions on the console and to a service, as set."""
    console = ["console=true"] if logs.console else []
    service = logs.service
    if service is None:
        return _logged(logs, *console)
    token = (
        [f"--set=services.logs.credentials.bearer.token_path={files.logs / 'token'}"]
        if service.secret
        else []
    )
    ca = (
        [f"--set=services.logs.tls.ca_cert={files.logs / 'ca.crt'}"]
        if service.private_authority
        else []
    )
    return [
        f"--set=services.logs.url={service.url}",
        *token,
        *ca,
        *_logged(logs, *console, "service=logs", *_BATCHES),
    ]


def _logged(logs: DecisionLogs, *values: str) -> list[str]:
    """The flags by which the plugin reduces decisions, and logs them as `values` of OPA's
    `decision_logs` say. A label has the share of the admitted requests that is logged.
    """
    if not values:
        return []
    sample = [] if logs.sample == 1 else [f"--set=labels.decision_sample={logs.sample:.6f}"]
    return [
        "--set=decision_logs.plugin=fairlead",
        *(f"--set=plugins.fairlead.decision_logs.{value}" for value in values),
        *sample,
    ]


SIDECARS: Mapping[str, Sidecar] = {
    sidecar.name: sidecar for sidecar in (Sync(), KubeMgmt(), Serve())
}
SYNC = SIDECARS[Sync.name]
KUBE_MGMT = SIDECARS[KubeMgmt.name]
SERVE = SIDECARS[Serve.name]
BESIDE_OPA = tuple(name for name, sidecar in SIDECARS.items() if sidecar.engine == OPA_ENGINE)
"""The names of those that stand beside OPA."""

DEFAULT = SYNC
"""The sidecar of rendered files and of all clusters except KIND's, unless one is chosen. An
existing deployment keeps its own."""
DEFAULT_KIND = KUBE_MGMT
"""The sidecar of KIND clusters, unless one is chosen."""

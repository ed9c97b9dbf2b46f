"""What differs by OPA's sidecar: its arguments, its abilities, and its liveness probe.

A new one is a class here, its line in SIDECARS, and its container in integration/deploy/sidecars.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from fairlead.common import durations
from fairlead.common.errors import UsageError
from fairlead.deployment import sidecar_flags as flags
from fairlead.kube import resources
from fairlead.kube.resources import Resource
from fairlead.opa.arguments import OPA_PORT, SYNC_PORT, Files, Liveness
from fairlead.programs.toolchain import installed
from fairlead.settings.models import NAMESPACE, DecisionLogs, Settings

_BATCHES = (
    # Seconds between two uploads of decisions; a failed one is tried again after no more.
    "--set=decision_logs.reporting.min_delay_seconds=1",
    "--set=decision_logs.reporting.max_delay_seconds=2",
    # Bytes that OPA keeps while nothing can be uploaded; beyond it drops the oldest.
    f"--set=decision_logs.reporting.buffer_size_limit_bytes={16 * 1024 * 1024}",
)


class Sidecar(Protocol):
    """What keeps an OPA's policies and data current."""

    name: str

    look_up: bool
    """Whether OPA can ask it for a namespace that is not replicated (yet); see
    policies/namespaces."""

    unloads: bool
    """Whether it takes out of OPA what is taken out of a ConfigMap."""

    rereads: bool
    """Whether it sees that its token or its CA file changed; one that does not is started again
    for it."""

    renews: bool
    """Whether it renews OPA's certificate; beside one that does not, a Deployment of its own
    does."""

    liveness: Liveness
    """When it is restarted: it hangs, or has to be started again for its OPA's sake."""

    def require(self, settings: Settings) -> None:
        """Raises UsageError where it cannot do what the settings ask for."""

    def command(self) -> list[str]:
        """What starts it on this machine, without its arguments. Raises UsageError where it is
        not available.
        """

    def arguments(
        self, files: Files, settings: Settings, opa_address: str, listen: str
    ) -> list[str]:
        """Its arguments beside the OPA at `opa_address` (host:port); `listen` is for what it
        serves, if anything.
        """

    def opa_environment(self, files: Files, address: str) -> Mapping[str, str]:
        """What the OPA beside it needs to know of the sidecar that serves at `address`
        (host:port).
        """

    def decision_logs(self, files: Files, settings: Settings, address: str) -> list[str]:
        """The flags by which OPA logs its decisions as set, where the sidecar serves at
        `address` (host:port).
        """


class Sync:
    """`fairlead sync`."""

    name = "sync"
    look_up = True
    unloads = True
    rereads = True
    renews = True
    # Not /health: an API server or an OPA that is away is no reason to start again.
    liveness = Liveness(SYNC_PORT, "/live", period=5, timeout=5, failures=3, startup=60)

    def require(self, settings: Settings) -> None:
        """It can do all of them."""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "fairlead"]

    def arguments(
        self, files: Files, settings: Settings, opa_address: str, listen: str
    ) -> list[str]:
        label = settings.namespace_label
        # With a default pool every namespace matters; without one, only those that name a pool.
        selector: Sequence[str] = (
            [] if settings.default_pool else [f"{flags.NAMESPACE_SELECTOR}={label},{label}!="]
        )
        return [
            "sync",
            f"{flags.OPA_URL}=https://{opa_address}",
            f"{flags.OPA_CA_FILE}={files.ca}",
            f"{flags.OPA_AUTH_TOKEN_FILE}={files.token / 'token'}",
            *selector,
            f"{flags.NAMESPACE_LABELS}={label}",
            *replication(replicated.named() for replicated in settings.replicate),
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
            *renewal(settings),
            *_served(files, listen),
        ]

    def opa_environment(self, files: Files, address: str) -> dict[str, str]:
        return {
            "FAIRLEAD_NAMESPACES_URL": f"https://{address}/v1/namespaces",
            "FAIRLEAD_CA_FILE": str(files.ca),
        }

    def decision_logs(self, files: Files, settings: Settings, address: str) -> list[str]:
        if settings.decision_logs.service:
            return _uploaded(files, settings.decision_logs)
        return [
            "--set=decision_logs.service=sync",
            f"--set=services.sync.url=https://{address}",
            # OPA reads an authority here but once, and would be deaf after `fairlead rotate cert`.
            # Who else answers on loopback learns what is masked already, and nothing that lets it
            # in.
            "--set=services.sync.allow_insecure_tls=true",
            *_BATCHES,
        ]


class KubeMgmt:
    """kube-mgmt, the upstream sidecar (github.com/open-policy-agent/kube-mgmt).

    It never notices that its OPA restarted, and its own health endpoint, plain HTTP, says 200 all
    the same: it is not asked for, and OPA's own readiness decides when kube-mgmt is restarted,
    whereupon it loads everything.
    """

    name = "kube-mgmt"
    look_up = False
    unloads = False
    rereads = False
    renews = False
    liveness = Liveness(OPA_PORT, "/health/ready", period=1, timeout=2, failures=3, startup=60)

    def require(self, settings: Settings) -> None:
        if settings.max_staleness is not None:
            raise UsageError(
                "maxStaleness: kube-mgmt confirms no data: take --sidecar sync, or leave it out"
            )

    def command(self) -> list[str]:
        if variable := os.environ.get("FAIRLEAD_KUBE_MGMT"):
            path = Path(variable).absolute()
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise UsageError(
                    f"FAIRLEAD_KUBE_MGMT names {variable}, which is no program: name kube-mgmt's "
                    "own file"
                )
            return [str(path)]
        program = next(installed.on_path("kube-mgmt"), None)
        if program is None:
            raise UsageError(
                "no program kube-mgmt found: put it on PATH, set FAIRLEAD_KUBE_MGMT to its file, "
                "or take --sidecar sync"
            )
        return [str(program)]

    def arguments(
        self, files: Files, settings: Settings, opa_address: str, listen: str
    ) -> list[str]:
        replicated = replication(resource.named() for resource in settings.replicate)
        return [
            f"{flags.OPA_URL}=https://{opa_address}/v1",
            f"{flags.OPA_CA_FILE}={files.ca}",
            f"{flags.OPA_AUTH_TOKEN_FILE}={files.token / 'token'}",
            "--enable-policies",
            "--enable-data",
            f"--namespaces={NAMESPACE}",
            f"{flags.REPLICATE_CLUSTER}=v1/namespaces",
            # It replicates objects whole.
            *(flag for flag in replicated if not flag.startswith(flags.REPLICATE_FIELDS)),
        ]

    def opa_environment(self, files: Files, address: str) -> dict[str, str]:
        return {"FAIRLEAD_MAPPED_ONLY": "true"}  # see policies/node_pool

    def decision_logs(self, files: Files, settings: Settings, address: str) -> list[str]:
        return _uploaded(files, settings.decision_logs)


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


def renewal(settings: Settings) -> list[str]:
    """The flags of what renews the certificate as set; none where somebody else does."""
    chosen = settings.certificates
    if chosen.by != "fairlead":
        return []
    return [
        f"{flags.CERTIFICATE_LIFE}={chosen.life}",
        f"{flags.RENEW_BEFORE}={durations.text(chosen.renewal)}",
    ]


def keeper(files: Files, settings: Settings, listen: str) -> list[str]:
    """The arguments of the keeper beside a sidecar that does not renew, nor read its authorities
    again.
    """
    return ["keeper", *renewal(settings), flags.ROLL_OUT, *_served(files, listen)]


def _served(files: Files, listen: str) -> list[str]:
    return [
        f"{flags.HEALTH_ENDPOINT}={listen}",
        f"{flags.TLS_CERT_FILE}={files.tls / 'tls.crt'}",
        f"{flags.TLS_PRIVATE_KEY_FILE}={files.tls / 'tls.key'}",
    ]


def _uploaded(files: Files, logs: DecisionLogs) -> list[str]:
    """OPA's own console and the service, each where it is set."""
    console = ["--set=decision_logs.console=true"] if logs.console else []
    service = logs.service
    if service is None:
        return console
    token = (
        [f"--set=services.logs.credentials.bearer.token_path={files.logs / 'token'}"]
        if service.secret
        else []
    )
    authority = (
        [f"--set=services.logs.tls.ca_cert={files.logs / 'ca.crt'}"]
        if service.private_authority
        else []
    )
    service_flags = ["--set=decision_logs.service=logs", f"--set=services.logs.url={service.url}"]
    return [*console, *service_flags, *token, *authority, *_BATCHES]


SIDECARS: Mapping[str, Sidecar] = {sidecar.name: sidecar for sidecar in (Sync(), KubeMgmt())}
SYNC = SIDECARS[Sync.name]
KUBE_MGMT = SIDECARS[KubeMgmt.name]

"""Runs the workers of `fairlead serve`, which share one socket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from uvicorn.supervisors import Multiprocess

from fairlead.engines.python import decisions
from fairlead.engines.python.serving import connections
from fairlead.engines.python.serving.application import Application
from fairlead.engines.python.serving.metrics import FOLDER_VARIABLE
from fairlead.engines.python.serving.namespaces import Namespaces
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.sync.server_certificates import Certificate

CONNECTIONS = 256
"""One worker has fewer connections. Each has buffers of up to 0.4 MiB."""
_HUNG = 20
"""Seconds after which a worker that does not answer its parent is replaced. It answers only once it
has imported everything, which takes its time on a busy machine."""


@dataclass(frozen=True)
class Options:
    """What `fairlead serve` serves, and where. Without settings, it decides by the policies that
    are deployed in the cluster; without a kubeconfig, it uses the pod's service account.
    """

    settings: Settings | None
    host: str
    port: int
    certificate: Path
    key: Path
    kubeconfig: Path | None
    workers: int
    log_level: str


def run(options: Options) -> None:
    """Serve until SIGTERM or SIGINT. Raises UsageError or InputError if the settings, a certificate
    or the kubeconfig cannot be used, and FairleadError if the address cannot.
    """
    if options.settings:
        decisions.of_policies(PolicySet.load(options.settings))
    Certificate(options.certificate, options.key)
    Namespaces(options.kubeconfig)
    listening = connections.listening(options.host, options.port)
    with listening as listener, TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = folder
        config = connections.configured(
            Application(options.settings, options.kubeconfig, Path(folder)),
            options.certificate,
            options.key,
            connections=CONNECTIONS,
            log_level=options.log_level,
            workers=options.workers,
            timeout_worker_healthcheck=_HUNG,
        )
        Multiprocess(config, sockets=[listener]).run()

"""Watches the objects Fairlead and Policy, by kopf."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import kopf

from fairlead.kube import configurations
from fairlead.kube.own_kinds import FAIRLEADS, GROUP, POLICIES

_CREDENTIALS = timedelta(minutes=10)
"""How often the credentials are read again: a kubelet replaces the token of a pod in time."""
_SERVER_TIMEOUT = 300
"""Seconds after which a watch is begun anew. An API server may be gone without a word."""

_BACKOFFS = (1.0, 1.0, 2.0, 3.0, 5.0)
"""Seconds between attempts while an API server fails. Then the watch ends, and is started again."""


def start(kubeconfig: Path | None, changed: Callable[[], None], stop: Event) -> Thread:
    """Call `changed` whenever one of the objects appears, changes or goes, until `stop` is set, in
    the thread that is returned. It ends before if the API server cannot be asked at all.
    """
    thread = Thread(target=_run, args=(kubeconfig, changed, stop), name="watch", daemon=True)
    thread.start()
    return thread


def _run(kubeconfig: Path | None, changed: Callable[[], None], stop: Event) -> None:
    registry = kopf.OperatorRegistry()

    def seen(**_: Any) -> None:
        changed()

    for plural, _, version in (FAIRLEADS, POLICIES):
        kopf.on.event(GROUP, version, plural, registry=registry)(seen)

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return _connection(kubeconfig)

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.watching.server_timeout = _SERVER_TIMEOUT
    settings.networking.error_backoffs = _BACKOFFS
    logging.getLogger("kopf").setLevel(logging.WARNING)
    asyncio.run(
        kopf.operator(
            registry=registry,
            settings=settings,
            clusterwide=True,
            standalone=True,
            stop_flag=stop,
        )
    )


def _connection(kubeconfig: Path | None) -> kopf.ConnectionInfo:
    """The API server and the credentials, as everything else here uses them."""
    loaded = configurations.load(kubeconfig)
    header = loaded.get_api_key_with_prefix("BearerToken") or loaded.get_api_key_with_prefix(
        "authorization"
    )
    return kopf.ConnectionInfo(
        server=loaded.host,
        ca_path=loaded.ssl_ca_cert,
        insecure=not loaded.verify_ssl,
        token=header.rpartition(" ")[2] if header else None,
        certificate_path=loaded.cert_file,
        private_key_path=loaded.key_file,
        expiration=datetime.now(UTC) + _CREDENTIALS,
    )

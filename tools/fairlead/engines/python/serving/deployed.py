"""The policies that are deployed in the cluster: a watch follows their ConfigMap."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fairlead.deployment import engine_names
from fairlead.deployment.names import (
    NAMESPACE,
    POLICIES,
    PYTHON_ENGINE,
    SETTINGS_ANNOTATION,
)
from fairlead.engines.python import decisions
from fairlead.engines.python.decisions import Policies
from fairlead.engines.python.serving import metrics
from fairlead.kube.api_requests import BRIEF, ApiRequests
from fairlead.policy import bundles
from fairlead.settings.models import Settings
from fairlead.sync.desired import Source
from fairlead.sync.watches import Watch

log = logging.getLogger(__name__)

_SELECTOR = {"fieldSelector": f"metadata.name={POLICIES}"}


class Deployed:
    """The policies of the ConfigMap as it was when they could last be used."""

    def __init__(self, kubeconfig: Path | None, changed: Callable[[], None]) -> None:
        """`changed` is called in the thread of the watch. Raises UsageError."""
        self.policies: Policies | None = None
        self.revision: str | None = None
        """12 hex digits that identify the policies."""
        self.rejected: dict[str, str] | None = None
        """{revision, error} of the policies in the ConfigMap, if these cannot be used."""
        self.read = Event()
        """Set once the ConfigMap was read."""
        self._changed = changed
        source = Source("policies", NAMESPACE)
        self._watch = Watch(
            ApiRequests(kubeconfig, timeout=BRIEF), source, _SELECTOR, self, metrics.WATCHED
        )

    def start(self, stop: Event) -> None:
        """Begin to watch, in a thread of its own, until `stop` is set."""
        Thread(target=self._watch.run, args=(stop, lambda: None), daemon=True).start()

    @property
    def trouble(self) -> str | None:
        """Why there is no policy to decide by, or why a newer one may be missing."""
        if self.policies is None:
            error = (self.rejected or {}).get("error")
            return f"no policies: {error or self._watch.trouble or f'none in ConfigMap {POLICIES}'}"
        return None

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take a complete list."""
        for config_map in objects:
            self.apply(source, False, config_map)
        self.read.set()

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event. While the ConfigMap is gone, or another engine takes over, the policies
        stay: API servers may still ask for decisions.
        """
        annotations = value["metadata"].get("annotations") or {}
        if removed or engine_names.of(value) != PYTHON_ENGINE:
            return
        data = value.get("data") or {}
        revision = bundles.revision(data)
        try:
            settings = Settings.model_validate(json.loads(annotations[SETTINGS_ANNOTATION]))
            policies = decisions.of_data(settings, data)
        except Exception as error:  # whatever the code of a policy raises
            text = f"{type(error).__name__}: {error}" if not str(error) else str(error)
            self.rejected = {"revision": revision, "error": text}
            log.exception("revision %s cannot be used", revision)
        else:
            self.policies, self.revision, self.rejected = policies, revision, None
            log.info("revision %s is in force", revision)
        self._changed()

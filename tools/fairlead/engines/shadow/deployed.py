"""The two engines and their policies, as the ConfigMap of the policies names them: a watch follows
it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import yaml

from fairlead.common.errors import FairleadError
from fairlead.deployment.names import (
    INTENT_LABEL,
    NAMESPACE,
    POLICIES,
    PYTHON_ENGINE,
    SETTINGS_ANNOTATION,
)
from fairlead.deployment.shadowing import Engines, Pair
from fairlead.engines.python import decisions
from fairlead.engines.python.decisions import Policies
from fairlead.engines.shadow import metrics
from fairlead.kube.clients import BRIEF, Objects
from fairlead.policy import bundles
from fairlead.settings.models import Settings
from fairlead.sync.desired import Source
from fairlead.sync.watches import Watch

log = logging.getLogger(__name__)

_SELECTOR = {"fieldSelector": f"metadata.name={POLICIES}"}


@dataclass(frozen=True)
class Deployment:
    """Two engines that are deployed. `objects` are those of `cel` by intent, as they have an
    effect. `python` decides if one of the engines is python.
    """

    engines: Engines
    revision: str
    objects: Mapping[str, list[dict[str, Any]]] = field(repr=False)
    plurals: Mapping[str, str]
    """The resource of each kind of parameters."""
    python: Policies | None = field(default=None, repr=False)


class Deployed:
    """What the ConfigMap says. Its thread writes, other threads may read."""

    def __init__(self, kubeconfig: Path | None, changed: Callable[[Deployment], None]) -> None:
        """`changed` is called in the thread of the watch. Raises UsageError."""
        self.current: Deployment | None = None
        self._error: str | None = None
        self._changed = changed
        source = Source("policies", NAMESPACE)
        self._watch = Watch(
            Objects(kubeconfig, timeout=BRIEF), source, _SELECTOR, self, metrics.WATCHED
        )

    def start(self, stop: Event) -> None:
        """Begin to watch, in a thread of its own, until `stop` is set."""
        Thread(target=self._watch.run, args=(stop, lambda: None), daemon=True).start()

    @property
    def trouble(self) -> str | None:
        """Why there is nothing to compare, or why what is compared may be old."""
        return self._error or self._watch.trouble

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take a complete list."""
        for config_map in objects:
            self.apply(source, False, config_map)

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event."""
        if removed:
            return
        try:
            deployment = read(value)
        except Exception as error:  # whatever the code of a policy raises
            self._error = f"the policies cannot be used: {error or type(error).__name__}"
            log.exception("the policies cannot be used")
            return
        self.current, self._error = deployment, None
        if deployment:
            log.info("%s: revision %s", deployment.engines, deployment.revision)
            self._changed(deployment)


def read(config_map: Mapping[str, Any]) -> Deployment | None:
    """The engines and policies of the ConfigMap; None for a single engine. Raises FairleadError,
    and whatever the code of a policy in Python raises.
    """
    pair = Pair.of(config_map)
    if pair is None:
        return None
    data = config_map.get("data") or {}
    by_intent: dict[str, list[dict[str, Any]]] = {}
    plurals = {}
    try:
        objects = list(yaml.load_all(pair.objects, yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise FairleadError(f"the objects of the ConfigMap {POLICIES} are no YAML") from error
    for each in objects:
        if each["kind"] == "CustomResourceDefinition":
            plurals[each["spec"]["names"]["kind"]] = each["spec"]["names"]["plural"]
        else:
            by_intent.setdefault(each["metadata"]["labels"][INTENT_LABEL], []).append(each)
    python = None
    if pair.engines.asked == PYTHON_ENGINE:
        settings = json.loads(config_map["metadata"]["annotations"][SETTINGS_ANNOTATION])
        python = decisions.of_data(Settings.model_validate(settings), data)
    return Deployment(pair.engines, bundles.revision(data), by_intent, plurals, python)

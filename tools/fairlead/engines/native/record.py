"""What enforces the policies of a cluster, as the ConfigMap of the policies records it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fairlead import engines as engines_
from fairlead.common.errors import FairleadError
from fairlead.deployment import engine_names, manifests
from fairlead.deployment.names import (
    ENGINE_ANNOTATION,
    NAMESPACE,
    OBJECTS,
    POLICIES,
    REVISION_ANNOTATION,
    SETTINGS_ANNOTATION,
)
from fairlead.kube import clients
from fairlead.operations import drift
from fairlead.policy import bundles
from fairlead.settings.models import Settings

ASKED = engine_names.ASKED
_DEFINITION = "CustomResourceDefinition"


@dataclass(frozen=True)
class Record:
    """The ConfigMap of the policies of such an engine, and the objects that it stands for.

    `guards` are the namespace, the administrators' rights and the guards. `definitions`,
    `prepared` and `bindings` are the engine's objects: kinds of parameters, parameters and
    policies, and what puts these in force.
    """

    manifest: Mapping[str, Any]
    settings: Settings
    guards: tuple[dict[str, Any], ...]
    definitions: tuple[dict[str, Any], ...]
    prepared: tuple[dict[str, Any], ...]
    bindings: tuple[dict[str, Any], ...]

    @property
    def native(self) -> tuple[dict[str, Any], ...]:
        """The engine's objects, in the order in which to apply them."""
        return (*self.definitions, *self.prepared, *self.bindings)

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """All objects but the ConfigMap, in the order in which to apply them."""
        return (*self.guards, *self.native)

    @property
    def revision(self) -> str:
        """12 hex digits that identify policies and settings."""
        return bundles.revision(self.manifest["data"])


def made(engine: str, settings: Settings, folder: Path | None) -> Record:
    """The record of a deployment with these settings and the policies of `folder`, or the
    project's. Raises UsageError if the engine cannot enforce one of them, and InputError.
    """
    rendered = engines_.render(engine, settings, folder)
    bundle = bundles.bundle(settings, folder)
    data = {**bundle.modules, OBJECTS: manifests.to_yaml(rendered)}
    annotations = {
        REVISION_ANNOTATION: bundles.revision(data),
        SETTINGS_ANNOTATION: json.dumps(settings.deployed_document()),
        ENGINE_ANNOTATION: engine,
    }
    return _record(manifests.policies_of(data, annotations), settings, rendered)


def read(config_map: Mapping[str, Any]) -> Record:
    """The record that a ConfigMap of the policies is, deployed or of the history. Raises
    FairleadError if somebody damaged it.
    """
    data = config_map.get("data") or {}
    try:
        rendered = list(yaml.load_all(data[OBJECTS], yaml.CSafeLoader))
    except (KeyError, yaml.YAMLError) as error:
        raise FairleadError(
            f"{OBJECTS} of the ConfigMap {POLICIES} cannot be read: run `fairlead deploy`"
        ) from error
    kept = (REVISION_ANNOTATION, SETTINGS_ANNOTATION, ENGINE_ANNOTATION)
    present = config_map["metadata"].get("annotations") or {}
    annotations = {key: present[key] for key in kept if key in present}
    manifest = manifests.policies_of(data, annotations)
    return _record(manifest, drift.settings(config_map), rendered)


def deployed(objects: clients.Objects) -> dict[str, Any] | None:
    """The ConfigMap of the policies; None if nothing is deployed."""
    return objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)


def engine_of(config_map: Mapping[str, Any] | None) -> str:
    """The engine that enforces the policies of the ConfigMap; `opa` if there is none."""
    return engine_names.of(config_map)


def _record(
    manifest: dict[str, Any],
    settings: Settings,
    rendered: Iterable[dict[str, Any]],
) -> Record:
    rendered = list(rendered)
    bundle = bundles.Bundle(bundles.modules_of(manifest["data"]))
    definitions = [each for each in rendered if each["kind"] == _DEFINITION]
    bindings = [each for each in rendered if each["kind"].endswith("Binding")]
    prepared = [each for each in rendered if each not in definitions and each not in bindings]
    guards = manifests.render_guards(settings, bundle)
    return Record(
        manifest, settings, tuple(guards), tuple(definitions), tuple(prepared), tuple(bindings)
    )

"""Makes cases of drawn requests, with objects as an API server passes them to policies: accepted by
its own validation, with its defaults, and with quantities in its spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairlead.engines.base import Decision
from fairlead.policy.cases import Case, Expect, Namespace, Request
from fairlead.settings.models import Settings
from lab.engines.live.answers import carry
from lab.engines.live.scene import SETUP_USER, Scene
from lab.fuzz import acceptable
from lab.fuzz.engine_batches import Batch

# What API servers write into stored objects, and controllers some time later.
_METADATA = ("uid", "creationTimestamp", "managedFields", "generation", "resourceVersion")
_ANNOTATIONS = ("deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation")


@dataclass(frozen=True)
class Completed:
    """A case whose objects an API server accepts, and its own warnings about them."""

    case: Case
    warnings: tuple[str, ...]


def case_of(batch: Batch, name: str) -> Case:
    """The only request of a batch as a case, acceptable as far as that shows without an API server.
    It expects nothing yet.
    """
    (asked,) = batch.asked
    request = Request.model_validate(acceptable.request(asked.review["request"]))
    namespace = Namespace(
        name=asked.review["request"]["namespace"], labels=dict(asked.labels or {})
    )
    return Case(
        name=name,
        intent=next(iter(intents(batch.settings)), "node-pool"),
        settings=Settings.model_validate(batch.settings),
        given=batch.settings,
        namespace=None if request.manifest["kind"] == "Namespace" else namespace,
        request=request,
        expect=Expect(allowed=True),
        path=Path(name),
        line=1,
    )


def intents(settings: Mapping[str, Any]) -> list[str]:
    """The intents that settings, in the form of the file, say something about."""
    return [given.get("intent", name) for name, given in settings.get("intents", {}).items()]


def completed(scene: Scene, case: Case) -> Completed | str:
    """The case with what the API server makes of its objects while no policy is in force; why it
    refuses the request, if it does.
    """
    request = case.request
    if request.old_object is not None and request.manifest["kind"] not in ("Namespace", "Scale"):
        creation = Request(
            operation="CREATE", object=request.old_object, user_info={"username": SETUP_USER}
        )
        before = scene.decide(replace(case, request=creation))
        if not isinstance(before, Decision) or not before.allowed:
            return _reason(before)
        old = plain(before.object)
        new = carry(old, request.old_object, request.object)
        request = request.model_copy(update={"old_object": old, "object": new})
    after = scene.decide(replace(case, request=request))
    if not isinstance(after, Decision) or not after.allowed:
        return _reason(after)
    request = request.model_copy(update={"object": plain(after.object)})
    return Completed(replace(case, request=request), after.warnings)


def plain(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what only stored objects have, and without a name that was generated."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _METADATA}
    if "generateName" in metadata:
        metadata.pop("name", None)
    if annotations := metadata.pop("annotations", None):
        metadata["annotations"] = {k: v for k, v in annotations.items() if k not in _ANNOTATIONS}
    stored = {key: value for key, value in manifest.items() if key != "status"}
    return {**stored, "metadata": metadata}


def _reason(outcome: Any) -> str:
    return str(getattr(outcome, "message", "") or getattr(outcome, "reason", ""))

"""Hot-pushes the policies: tested before, in force on every OPA after, or what was there put back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairlead import kube, manifests, opa_cli, paths, policy, serving
from fairlead.clusters.base import Cluster
from fairlead.errors import FairleadError, UsageError
from fairlead.progress import Progress
from fairlead.settings import NAMESPACE, Settings

# What only the policies read; the rest of the settings shapes the webhook, the sidecar and the pods.
_POLICY_ONLY = {"nodeLabel", "podSelector", "enforcement"}


def push(cluster: Cluster, settings: Settings, folder: Path | None = None, *, progress: Progress) -> dict[str, Any]:
    """Check and test the policies of `folder` (or the project's own), and bring exactly them into force on every OPA.

    Returns {revision, previous, opa: [{url, revision}]}. Raises FairleadError where a check or a test fails (nothing
    was changed) or an OPA does not take them (what was there is put back), UsageError where it takes a deployment.
    """
    progress.update("policies", "checking and testing")
    require_good(folder or policy.folder(), progress)
    bundle = policy.bundle(settings, folder)
    objects = kube.Objects(kube.connect(cluster.kubeconfig))
    previous = objects.get("v1", "ConfigMap", manifests.POLICIES, NAMESPACE)
    credentials = serving.credentials(objects)
    if previous is None or credentials is None:
        raise UsageError(f"cluster {cluster.name} has no deployed policies to replace: run `fairlead deploy` first")
    _require_same_deployment(previous, settings)
    stale = serving.annotation(objects)
    progress.update("policies", f"applying revision {bundle.revision}")
    objects.apply(manifests.policies(settings, bundle))
    try:
        states = serving.wait(cluster, objects, credentials.token, bundle.revision, progress=progress, stale=stale)
    except FairleadError as error:
        objects.apply(_as_applied(previous))
        old = policy.revision(previous.get("data") or {})
        serving.wait(cluster, objects, credentials.token, old, progress=progress, stale=serving.annotation(objects))
        raise FairleadError(f"{error}; revision {old} was put back and is in force") from error
    return {
        "revision": bundle.revision,
        "previous": policy.revision(previous.get("data") or {}),
        "opa": [{"url": state.opa.url, "revision": state.revision} for state in states],
    }


def require_good(folder: Path, progress: Progress) -> None:
    """Raises FairleadError unless the policies compile, strictly, and all their tests pass."""
    opa_cli.check(folder, paths.root() / "tools" / "schemas", progress=progress)
    result = opa_cli.test(folder, progress=progress)
    if result.failed:
        raise FairleadError(f"policy tests fail, nothing was pushed: {', '.join(result.failed)}")


def _require_same_deployment(deployed: dict[str, Any], settings: Settings) -> None:
    """Raises UsageError where a setting changed that policies alone cannot bring into force."""
    try:
        old = json.loads(deployed["metadata"]["annotations"][manifests.SETTINGS])
    except (KeyError, TypeError, ValueError):
        return
    new = json.loads(json.dumps(settings.document()))
    changed = sorted(key for key in new if key not in _POLICY_ONLY and new[key] != old.get(key))
    if changed:
        raise UsageError(f"{', '.join(changed)} changed since the last deployment: run `fairlead deploy`")


def _as_applied(found: dict[str, Any]) -> dict[str, Any]:
    """A ConfigMap as it was applied, out of what the API server has."""
    metadata = found["metadata"]
    ours = {
        k: v for k, v in (metadata.get("annotations") or {}).items() if k in (manifests.REVISION, manifests.SETTINGS)
    }
    kept = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata.get("labels") or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**kept, "annotations": ours}, "data": found["data"]}

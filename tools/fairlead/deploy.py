"""Brings a cluster to what the settings say; safe to repeat."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from fairlead import history, kube, manifests, policy, preflight, render, rotate, serving, sidecars, staging
from fairlead.clusters import connections
from fairlead.clusters.base import Cluster
from fairlead.credentials import RENEW, Credentials
from fairlead.progress import Progress
from fairlead.settings import Settings


def deploy(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    sidecar: str | None = None,
    progress: Progress,
) -> list[serving.Served]:
    """Apply everything, and return when every OPA decides by it; the policies are those of `folder`, or the project's.

    Guards and webhooks come last, when OPA serves already, so that no pod is refused meanwhile. Token and certificate
    are kept, but a certificate that is about to end is rotated, and one that has ended replaced; the kind of sidecar is
    kept until another is named as `sidecar`. A cluster that is examined is so before anything is applied.

    Raises UsageError where the sidecar cannot run there or do what the settings ask for, FairleadError where the
    cluster lacks something (all of it is told, and nothing was applied), or something does not come up; what was
    applied until then stays, and the next run goes on.
    """
    (sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar).require(settings)
    if sidecar:
        cluster.choose(sidecars.SIDECARS[sidecar])
    bundle = staging.stage(policy.bundle(settings, folder), progress)
    objects = kube.Objects(kube.connect(cluster.kubeconfig))
    credentials = serving.credentials(objects) or Credentials.fresh()
    if credentials.left <= timedelta(0):  # nobody can be refused for it any more
        credentials = replace(Credentials.fresh(), token=credentials.token)
    rendered = manifests.render(
        settings,
        bundle,
        credentials,
        webhook_url=cluster.webhook_url,
        replicas=cluster.replicas,
        sidecar=cluster.sidecar,
    )
    if cluster.examined:
        progress.update("cluster", "checking that it can take the deployment")
        preflight.require(preflight.check(cluster, rendered, settings.pool_keys()))
    stale = serving.annotation(objects)
    admission = [o for o in rendered if o["apiVersion"].startswith("admissionregistration.k8s.io/")]
    for manifest in rendered:
        if manifest not in admission:
            progress.update("deploy", f"applying {manifest['kind']} {manifest['metadata']['name']}")
            (objects.apply_whole if manifest["kind"] == "ConfigMap" else objects.apply)(manifest)
    cluster.serve(settings, credentials, policy.guards([credentials.token]), progress=progress)
    states = serving.wait(
        cluster, objects, credentials.token, bundle.modules, progress=progress, deadline=60.0, stale=stale
    )
    if cluster.examined:
        webhook = next(o for o in admission if o["kind"] == "MutatingWebhookConfiguration")
        preflight.reach(objects, webhook, progress=progress)
    for manifest in admission:
        objects.apply(connections.kept(objects, manifest))
    history.record(objects, manifests.policies(settings, bundle))
    if credentials.left <= RENEW:
        rotate.certificate(cluster, progress=progress)
    progress.update("deploy", "done")
    return states


def check(
    cluster: Cluster, settings: Settings, folder: Path | None = None, *, sidecar: str | None = None
) -> list[preflight.Finding]:
    """What `deploy` would find before it applies anything; changes nothing. Raises FairleadError."""
    rendered = manifests.render(
        settings,
        policy.bundle(settings, folder),
        Credentials.fresh(),
        webhook_url=cluster.webhook_url,
        replicas=cluster.replicas,
        sidecar=sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar,
    )
    return preflight.check(cluster, rendered, settings.pool_keys())


def preview(
    settings: Settings, folder: Path | None = None, *, sidecar: str | None = None, progress: Progress
) -> list[dict[str, Any]]:
    """All manifests, for a cluster that reaches OPA by its Service, with credentials made for this output."""
    return render.render(settings, folder, sidecar=sidecar, progress=progress).objects

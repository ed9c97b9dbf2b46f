"""Brings a cluster to what the settings say; safe to repeat."""

from __future__ import annotations

from pathlib import Path

from fairlead import kube, manifests, policy, serving
from fairlead.clusters.base import Cluster
from fairlead.credentials import Credentials
from fairlead.progress import Progress
from fairlead.settings import Settings


def deploy(
    cluster: Cluster, settings: Settings, folder: Path | None = None, *, progress: Progress
) -> list[serving.Served]:
    """Apply everything, and return when every OPA decides by it; the policies are those of `folder`, or the project's.

    The webhook comes last, when OPA serves already, so that no pod is refused meanwhile. Token and certificate are kept
    while they are good. Raises FairleadError; what was applied until then stays, and the next run goes on.
    """
    bundle = policy.bundle(settings, folder)
    objects = kube.Objects(kube.connect(cluster.kubeconfig))
    credentials = serving.credentials(objects) or Credentials.fresh()
    rendered = manifests.render(
        settings, bundle, credentials, webhook_url=cluster.webhook_url, replicas=cluster.replicas
    )
    stale = serving.annotation(objects)
    webhooks = [o for o in rendered if o["kind"] == "MutatingWebhookConfiguration"]
    for manifest in rendered:
        if manifest not in webhooks:
            progress.update("deploy", f"applying {manifest['kind']} {manifest['metadata']['name']}")
            objects.apply(manifest)
    cluster.serve(settings, credentials, policy.authz_module([credentials.token]), progress=progress)
    states = serving.wait(
        cluster, objects, credentials.token, bundle.revision, progress=progress, deadline=60.0, stale=stale
    )
    for manifest in webhooks:
        objects.apply(manifest)
    progress.update("deploy", "done")
    return states


def preview(settings: Settings, folder: Path | None = None) -> str:
    """All manifests as YAML, for a cluster that reaches OPA by its Service, with credentials made for this output."""
    return manifests.dump(manifests.render(settings, policy.bundle(settings, folder), Credentials.fresh()))

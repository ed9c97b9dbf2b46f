"""Deploys the settings and the policies into a cluster. It is safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from fairlead.clusters import webhook_connections
from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import access, manifests, sidecars
from fairlead.deployment.credentials import Credentials, Tls
from fairlead.deployment.names import (
    ACCESS,
    KEEPER,
    NAMESPACE,
    POLICIES,
    POLICY_WEBHOOK,
    WEBHOOKS,
    scoped_secret,
)
from fairlead.deployment.sidecars import Sidecar
from fairlead.keeper.trust import Deployed
from fairlead.kube import clients
from fairlead.operations import (
    deployed_state,
    disabling,
    drift,
    history,
    policy_status,
    preflight,
    revision_wait,
    rotate,
    transient_access,
)
from fairlead.operations.applying import DELETED, Applier, Outcome, preview, require_acceptable
from fairlead.policy import bundles, staging, tables, token_scopes, workspace
from fairlead.settings.models import Settings


def deploy(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    sidecar: str | None = None,
    message: str | None = None,
    tested: bool = False,
    report: Callable[[list[Outcome]], None] = lambda _: None,
    progress: Progress,
) -> list[deployed_state.Served]:
    """Apply everything, and return when every OPA decides by it. The policies are those of
    `folder`, by default the project's. `report` is called once with what became of each object,
    also if the deployment fails; the record in the history is none of them.

    The order is that of `_apply`, which leaves no pod unplaced, whatever the settings were before.
    Token and certificate stay, except that a certificate that is about to end is rotated, and one
    that has ended is replaced. The kind of sidecar stays until another is named as `sidecar`. If
    the cluster is to be examined, that happens before anything is applied. What is disabled stays
    disabled; a warning says so. The history gets an entry, with `message`. Policies of users are
    checked and tested first, as by a push, unless the caller has `tested` them.

    Raises UsageError if the sidecar cannot run there or cannot do what the settings ask for, or if
    the settings switch transient access off while somebody has some. Raises FairleadError if
    policies fail a check or a test, if the cluster lacks something (the error lists everything, and
    nothing was applied), or if something does not come up: what was applied stays, and the next run
    continues.
    """
    remarks.check("--message", message)
    if not tested and (settings.policies or folder is not None):
        progress.update("policies", "checking and testing")
        workspace.require_good(settings, folder, progress, remembering=True)
    (sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar).require(settings)
    if sidecar:
        cluster.choose(sidecars.SIDECARS[sidecar])
    bundle = _bundle(settings, folder, cluster.sidecar, progress)
    objects = cluster.objects()
    applier = Applier(objects)
    try:
        # While the Lease is held, no keeper renews the certificate that is read here and applied
        # below.
        with ExitStack() as stack:
            certificate = stack.enter_context(rotate.alone(cluster, forbidden=False))
            states = _deploy(
                cluster,
                objects,
                applier,
                settings,
                bundle,
                certificate,
                stack,
                message,
                progress,
            )
        if settings.certificates.by == "fairlead":
            rotate.if_due(cluster, settings.certificates.renewal, progress=progress)
    finally:
        report(applier.outcomes)
    for sentence in disabling.read(objects).sentences:
        progress.warn(sentence)
    progress.finish("deploy", f"applied {len(applier.outcomes)} objects")
    return states


def _deploy(
    cluster: Cluster,
    objects: clients.Objects,
    applier: Applier,
    settings: Settings,
    bundle: bundles.Bundle,
    certificate: Deployed,
    stack: ExitStack,
    message: str | None,
    progress: Progress,
) -> list[deployed_state.Served]:
    """Deploy, without the renewal of a certificate that is about to end; returns what every OPA
    serves.
    """
    if settings.certificates.by == "cert-manager":
        rotate.require_cert_manager(cluster)
    rendering = (cluster, objects, settings, bundle, cluster.sidecar)
    credentials, rendered = _credentials_and_objects(*rendering)
    if cluster.examined:
        progress.update("cluster", "checking that it can take the deployment")
        preflight.require(preflight.check(cluster, rendered, settings))
        progress.finish("cluster", "can take the deployment")
    require_acceptable(objects, rendered)
    if settings.access is None:
        transient_access.require_ended(objects)
    if not certificate.alone:
        # The Lease comes first: of two first deployments at once, the second then takes the
        # credentials of the other.
        for manifest in rendered:
            if manifest["kind"] in ("Namespace", "Lease"):
                progress.update(
                    "deploy", f"applying {manifest['kind']} {manifest['metadata']['name']}"
                )
                applier.apply(manifest)
        certificate = stack.enter_context(rotate.alone(cluster))
        credentials, rendered = _credentials_and_objects(*rendering)
    removed = _superfluous(cluster, objects, credentials, rendered)
    states = _apply(
        cluster, objects, applier, rendered, settings, bundle, credentials, certificate, progress
    )
    if settings.access and settings.access.own_controller:
        transient_access.until_one_works(cluster, progress=progress)
    for superfluous in removed:
        applier.delete(*superfluous)
    manifest = manifests.policies(settings, bundle, cluster.sidecar.engine)
    history.record(objects, manifest, "deploy", message)
    return states


def _superfluous(
    cluster: Cluster,
    objects: clients.Objects,
    credentials: Credentials,
    rendered: Sequence[dict[str, Any]],
) -> list[tuple[str, str, str, str | None]]:
    """The objects of another sidecar and of policies that are gone, which a deployment deletes, as
    (apiVersion, kind, name, namespace).
    """
    guards = drift.superseded(cluster, objects, credentials, rendered)
    superfluous: list[tuple[str, str, str, str | None]] = [(*guard, None) for guard in guards]
    deployments = {o["metadata"]["name"] for o in rendered if o["kind"] == "Deployment"}
    if KEEPER not in deployments:
        superfluous.append(("apps/v1", "Deployment", KEEPER, NAMESPACE))
    if all(o["metadata"]["name"] != POLICY_WEBHOOK for o in rendered):
        kind = "ValidatingWebhookConfiguration"
        superfluous.append(("admissionregistration.k8s.io/v1", kind, POLICY_WEBHOOK, None))
    if ACCESS not in deployments:
        superfluous += access.OBJECTS
    superfluous += [
        ("v1", "Secret", scoped_secret(scope), NAMESPACE)
        for scope in token_scopes.SCOPES
        if scope not in credentials.scoped
    ]
    return superfluous


def _credentials_and_objects(
    cluster: Cluster,
    objects: clients.Objects,
    settings: Settings,
    bundle: bundles.Bundle,
    sidecar: Sidecar,
) -> tuple[Credentials, list[dict[str, Any]]]:
    """The deployed credentials, or new ones if there are none, and all objects to apply."""
    valid = settings.certificates.valid
    credentials = deployed_state.credentials(objects) or Credentials.fresh(valid=valid)
    tls = credentials.tls
    if credentials.remaining <= timedelta(0):  # nobody can be refused for it any more
        tls = Tls.fresh(valid)
    credentials = credentials.having(tls).opening(token_scopes.wanted(settings))
    rendered = manifests.render_objects(
        settings,
        bundle,
        credentials,
        webhook_url=cluster.webhook_url,
        replicas=cluster.replicas,
        sidecar=sidecar,
    )
    return credentials, rendered


def _bundle(
    settings: Settings, folder: Path | None, sidecar: Sidecar, progress: Progress
) -> bundles.Bundle:
    """The policies as they are deployed. Raises as staging.deployed."""
    bundle = bundles.bundle(settings, folder)
    return staging.deployed(bundle, settings, sidecar.engine, progress)


def _apply(
    cluster: Cluster,
    objects: clients.Objects,
    applier: Applier,
    rendered: Sequence[dict[str, Any]],
    settings: Settings,
    bundle: bundles.Bundle,
    credentials: Credentials,
    certificate: Deployed,
    progress: Progress,
) -> list[deployed_state.Served]:
    """Apply what was rendered and wait until it is in force. The order makes sure that every
    decision has the data that it needs.

    1. OPAs and sidecars: with the new settings, the sidecar may replicate another label, of other
       namespaces. If the policies in force need what is no longer replicated, the sidecar looks it
       up in the API server.
    2. Policies, once every sidecar replicates what they need. Each OPA decides by the old ones or
       the new ones; a pod that is judged by one of each has the assignment of either, or is
       refused.
    3. Guards, and the webhooks last, when every OPA can decide about the namespaces that they add.
       A namespace that has a pool by both settings is covered by the old and the new webhook, and
       one of them is always there.

    If no intact policies are in force, the policies come first: no OPA becomes Ready without them.
    So it is if another engine was deployed, whose servers go on to decide by the policies before.
    """
    admission = [o for o in rendered if o["apiVersion"].startswith("admissionregistration.k8s.io/")]
    last = (
        [o for o in rendered if o["metadata"]["name"] == POLICIES]
        if _in_force(cluster, objects)
        else []
    )

    def apply(batch: Iterable[dict[str, Any]]) -> None:
        for manifest in batch:
            progress.update("deploy", f"applying {manifest['kind']} {manifest['metadata']['name']}")
            applier.apply(manifest)

    stale = policy_status.annotation(objects)
    apply(o for o in rendered if o not in admission and o not in last)
    issued = settings.certificates.by == "cert-manager"
    if issued:
        credentials = credentials.having(rotate.issued(objects, progress=progress))
    progress.update("deploy", "bringing OPA and its sidecar up")
    cluster.serve(
        settings,
        credentials,
        bundles.file_modules([credentials.token], credentials.scoped),
        labels=tables.namespace_labels(bundle.active(settings), settings),
        progress=progress,
    )
    if last:
        stale = policy_status.annotation(objects)
        apply(last)
    states = revision_wait.until_in_force(
        cluster,
        objects,
        credentials.token,
        bundle.modules,
        progress=progress,
        stale=stale,
    )
    asking = [o for o in admission if o["metadata"]["name"] == WEBHOOKS]
    if cluster.examined and asking:
        preflight.reach(objects, asking[0], progress=progress)
    if issued:  # as it injects its CA a moment later, and until then nothing else would
        certificate.trust_also(credentials.ca)
    apply(webhook_connections.with_deployed_comments(objects, manifest) for manifest in admission)
    if issued:
        certificate.trust_also(credentials.ca)
    return states


def _in_force(cluster: Cluster, objects: clients.Objects) -> bool:
    """Whether every OPA decides by the deployed policies."""
    deployed = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    credentials = deployed_state.credentials(objects)
    if deployed is None or credentials is None:
        return False
    revision = bundles.revision(deployed.get("data") or {})
    try:
        states = [deployed_state.served(opa, credentials.token) for opa in cluster.opas()]
    except FairleadError:  # a pod that cannot be reached, say
        return False
    return bool(states) and all(state.ready and state.revision == revision for state in states)


def check(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    sidecar: str | None = None,
) -> list[preflight.Finding]:
    """What `deploy` checks before it applies anything; changes nothing. Raises FairleadError."""
    rendered = manifests.render_objects(
        settings,
        bundles.bundle(settings, folder),
        Credentials.fresh().opening(token_scopes.wanted(settings)),
        webhook_url=cluster.webhook_url,
        replicas=cluster.replicas,
        sidecar=sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar,
    )
    return preflight.check(cluster, rendered, settings)


def plan(
    cluster: Cluster,
    settings: Settings,
    folder: Path | None = None,
    *,
    sidecar: str | None = None,
    progress: Progress,
) -> list[Outcome]:
    """What `deploy` would do to each object: created, changed, unchanged or deleted; unknown if it
    cannot be read. Changes nothing.

    Raises UsageError as `deploy`, FairleadError if the API server does not answer, or if the
    credentials cannot be read.
    """
    chosen = sidecars.SIDECARS[sidecar] if sidecar else cluster.sidecar
    chosen.require(settings)
    bundle = _bundle(settings, folder, chosen, progress)
    objects = cluster.objects()
    if settings.certificates.by == "cert-manager":
        rotate.require_cert_manager(cluster)
    credentials, rendered = _credentials_and_objects(cluster, objects, settings, bundle, chosen)
    outcomes = []
    for done, manifest in enumerate(rendered):
        progress.update("plan", "comparing the objects", done=done, total=len(rendered))
        expected = webhook_connections.with_deployed_comments(objects, manifest)
        outcomes.append(preview(objects, expected))
    outcomes += [
        Outcome(*removed, DELETED)
        for removed in _superfluous(cluster, objects, credentials, rendered)
        if objects.get(*removed) is not None
    ]
    progress.finish("plan", f"compared {len(outcomes)} objects")
    return outcomes

"""Deploys the settings and the policies into a cluster, with any engine. It is safe to repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from fairlead.clusters import webhook_connections
from fairlead.clusters.base import Cluster
from fairlead.common import remarks
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment import engine_names, ownership, render
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.kube.errors import Unreachable
from fairlead.operations import (
    applying,
    bundle_following,
    change_steps,
    deployed_state,
    disable,
    object_following,
    preflight,
    rotate,
    strategies,
)
from fairlead.operations.applying import DELETED, Applier, Outcome
from fairlead.operations.change_steps import Change
from fairlead.operations.strategies import cel, python
from fairlead.operations.strategies.base import Operation, Revision, Strategy
from fairlead.policy import workspace
from fairlead.policy.policy_set import PolicySet


def deploy(
    cluster: Cluster,
    policies: PolicySet,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    message: str | None = None,
    tested: bool = False,
    outcomes: list[Outcome] | None = None,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Apply everything, and return when every server decides by it: what each of them serves, as
    {url, ready, revision}. What became of each object is added to `outcomes`, also if the
    deployment fails; the record in the history does not count.

    The engine and its sidecar stay until others are named; another engine is removed once this one
    enforces the policies. Token and certificate stay, except that a certificate that is about to
    end is rotated, and one that has ended is replaced. If the cluster is to be examined, that
    happens before anything is applied. What is disabled stays disabled; a warning says so, and
    others say what the settings leave open. The history gets an entry, with `message`. Policies of
    users are checked and tested first, as by a push, unless the caller has `tested` them. If the
    settings of the cluster are an object, it and the Policies count, and not `policies`.

    Raises UsageError if the engine, its sidecar or the cluster cannot do what policies and settings
    ask for, or if the settings switch transient access off while somebody has some. Raises
    FairleadError if policies fail a check or a test, if the cluster lacks something (the error
    lists everything, and nothing was applied), or if something does not come up: what was applied
    stays, and the next run continues.
    """
    remarks.check("--message", message)
    with Operation.begun(cluster, progress, outcomes) as operation:
        made = _of_objects(operation)
        strategy = _strategy(operation, engine, sidecar)
        policies = made or policies
        if made:
            workspace.require_sound(made, progress)
        elif not tested and policies.has_own:
            workspace.require_good(policies, progress, remembering=True)
        new = strategy.render(policies)
        _require_accepted(operation, new)
        before = _former(operation, strategy)
        with _written_down(operation.applier):
            result = change_steps.bring(operation, strategy, new, before, Change("deploy", message))
    if policies.settings.certificates.by == "fairlead":
        rotate.if_due(cluster, policies.settings.certificates.renewal, progress=progress)
    if made and strategy.engine in engine_names.ASKED:
        object_following.require_in_force(operation.objects, progress)
    for taken in operation.applier.taken:
        progress.warn(
            f"{taken} was there before, and Fairlead had not made it: it is as Fairlead needs it "
            "now, and `fairlead uninstall` will remove it"
        )
    sentences = (*result.warnings, *disable.read(operation.objects).sentences)
    for sentence in (*sentences, *policies.settings.remarks()):
        progress.warn(sentence)
    if strategy.engine == OPA_ENGINE and sidecar is None:
        _tell_what_stays(cluster, progress)
    progress.finish("deploy", f"applied {len(operation.applier.outcomes)} objects")
    return result.states


def _of_objects(operation: Operation) -> PolicySet | None:
    """The policies that the objects of the cluster make; None if its settings are no object. Raises
    WrongObjects, FairleadError.
    """
    made = object_following.policy_set(operation.objects, operation.progress)
    if made:
        operation.progress.warn(object_following.INSTEAD)
    return made


@contextmanager
def _written_down(applier: Applier) -> Iterator[None]:
    """Record what the block applies, also if it fails or is interrupted: `fairlead uninstall` has
    to know it even if its other marks get lost.
    """
    try:
        yield
    except Unreachable:
        raise
    except BaseException:
        with suppress(FairleadError):  # the first error counts, and the namespace may be missing
            ownership.record(applier.objects, applier.uids)
        raise
    ownership.record(applier.objects, applier.uids)


def _tell_what_stays(cluster: Cluster, progress: Progress) -> None:
    """Say that another sidecar than the usual one was deployed and stays."""
    deployed, usual = cluster.sidecar.name, cluster.usual.name
    if deployed != usual:
        progress.finish("sidecar", f"stays {deployed}, as deployed: --sidecar {usual} changes it")


def _strategy(operation: Operation, engine: str | None, sidecar: str | None) -> Strategy:
    """The engine of this name, by default the deployed one. Raises UsageError."""
    bundle_following.require_no_bundles(operation.objects, bundle_following.DEPLOY)
    return strategies.named(operation, engine or deployed_state.engine(operation.objects), sidecar)


def _require_accepted(operation: Operation, new: Revision) -> None:
    """Raises FairleadError with everything for which the cluster cannot take the deployment."""
    if operation.cluster.examined:
        operation.progress.update("cluster", "checking that it can take the deployment")
        settings = new.policies.settings
        preflight.require(preflight.check(operation.cluster, _served_kinds(new.objects), settings))
        operation.progress.finish("cluster", "can take the deployment")
    applying.require_acceptable(operation.objects, new.objects)


def _former(operation: Operation, strategy: Strategy) -> Revision | None:
    """What is put back if the deployment fails. None for an engine with servers: the next run
    continues what these began.
    """
    config_map = operation.config_map
    if config_map is None or strategy.engine in engine_names.ASKED:
        return None
    with suppress(FairleadError):  # somebody damaged it
        return strategy.read(config_map) if engine_names.of(config_map) == strategy.engine else None
    return None


def _served_kinds(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The objects of kinds that a cluster has before a deployment."""
    objects = list(objects)
    parameters = {
        manifest["spec"]["names"]["kind"]
        for manifest in objects
        if manifest["kind"] == "CustomResourceDefinition"
    }
    return [manifest for manifest in objects if manifest["kind"] not in parameters]


def check(
    cluster: Cluster,
    policies: PolicySet,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    progress: Progress,
) -> list[preflight.Finding]:
    """What `deploy` checks before it applies anything; changes nothing. Raises UsageError,
    FairleadError.
    """
    with Operation.begun(cluster, progress, unprivileged=True) as operation:
        policies = _of_objects(operation) or policies
        objects = _strategy(operation, engine, sidecar).render(policies).objects
    return preflight.check(cluster, _served_kinds(objects), policies.settings)


def plan(
    cluster: Cluster,
    policies: PolicySet,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    progress: Progress,
) -> list[Outcome]:
    """What `deploy` would do to each object: created, changed, unchanged or deleted; unknown if it
    cannot be read. Changes nothing. Raises UsageError and FairleadError as `deploy`.
    """
    with Operation.begun(cluster, progress) as operation:
        policies = _of_objects(operation) or policies
        objects, strategy = operation.objects, _strategy(operation, engine, sidecar)
        new = strategy.render(policies)
        outcomes = []
        for done, manifest in enumerate(new.objects):
            progress.update("plan", "comparing the objects", done=done, total=len(new.objects))
            expected = webhook_connections.with_deployed_comments(objects, manifest)
            outcomes.append(applying.preview(objects, expected))
        keys = strategy.superfluous(new, _former(operation, strategy))
        outcomes += [Outcome(*key, DELETED) for key in keys if objects.get(*key) is not None]
    progress.finish("plan", f"compared {len(outcomes)} objects")
    return outcomes


def render_objects(
    policies: PolicySet,
    *,
    engine: str | None = None,
    sidecar: str | None = None,
    progress: Progress,
) -> render.Rendered:
    """The objects that `deploy` applies in a new cluster of pods, without a cluster. Raises
    UsageError, InputError.
    """
    engine = engine or OPA_ENGINE
    strategies.refuse_sidecar(engine, sidecar)
    if engine not in engine_names.ASKED:
        return render.Rendered({"": list(cel.rendered(policies).objects)})
    if engine == PYTHON_ENGINE:
        sidecar = python.require(policies)
    return render.render(policies, sidecar=sidecar, progress=progress)

"""The engines that a cluster can be deployed with. To add one, write a Strategy, and a case in
`_of`.
"""

from __future__ import annotations

from fairlead.common.errors import UsageError
from fairlead.deployment import engine_names, sidecars
from fairlead.deployment.names import OPA_ENGINE, PYTHON_ENGINE
from fairlead.operations.strategies.base import Operation, Strategy
from fairlead.operations.strategies.cel import Cel
from fairlead.operations.strategies.first import First
from fairlead.operations.strategies.opa import Opa
from fairlead.operations.strategies.python import Python


def named(operation: Operation, engine: str, sidecar: str | None = None) -> Strategy:
    """The engine of this name, with the sidecar that a user names, or what runs in the cluster.
    Raises UsageError if a sidecar is named for another engine than OPA.
    """
    refuse_sidecar(engine, sidecar)
    return _of(operation, engine, sidecar)


def first(operation: Operation) -> Strategy:
    """The engine whose servers others have applied, where nothing was deployed. Raises
    UsageError.
    """
    if operation.cluster.sidecar.engine != OPA_ENGINE:
        raise UsageError("another engine than OPA needs `fairlead deploy`: run it once")
    return First(operation)


def deployed(operation: Operation, *, restart: bool = False) -> Strategy:
    """The engine that is deployed. With `restart`, a push restarts its servers. Raises UsageError
    while what runs is not of that engine, and for a restart without OPA.
    """
    engine = engine_names.of(operation.config_map)
    running = operation.cluster.sidecar.engine
    if engine not in engine_names.ASKED:
        if restart:
            raise UsageError(
                f"--restart is about OPA, and {engine} enforces the policies: leave it out"
            )
    elif running != engine:
        raise UsageError(
            f"the change from {engine} to {running} was interrupted: run `fairlead deploy --engine "
            f"{running}` to complete it, or `--engine {engine}` to go back"
        )
    return _of(operation, engine, None, restart=restart)


def described(operation: Operation) -> Strategy:
    """The engine that is deployed, or that a change of engines has begun to start."""
    return _of(operation, engine_names.of(operation.config_map), None)


def refuse_sidecar(engine: str, sidecar: str | None) -> None:
    """Raises UsageError if a sidecar is named for another engine than OPA."""
    if sidecar and engine != OPA_ENGINE:
        raise UsageError(f"--sidecar is about OPA: leave it out with --engine {engine}")


def _of(
    operation: Operation, engine: str, sidecar: str | None, *, restart: bool = False
) -> Strategy:
    if engine not in engine_names.ASKED:
        return Cel(operation)
    if engine == PYTHON_ENGINE:
        return Python(operation, restart=restart)
    if sidecar:  # what runs need not be read, which not every user may
        return Opa(operation, sidecars.SIDECARS[sidecar], restart=restart)
    cluster = operation.cluster
    present = cluster.sidecar if cluster.sidecar.engine == OPA_ENGINE else cluster.usual
    return Opa(operation, present, restart=restart)

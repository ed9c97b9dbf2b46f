"""The options of `fairlead place` that choose a host cluster, and whether decisions are watched and
applied there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairlead.cli import output as out
from fairlead.cli.placement import place_formats
from fairlead.common.errors import UsageError

if TYPE_CHECKING:
    from fairlead.placement.hosts import Host


@dataclass(frozen=True)
class Execution:
    """Whether to watch and to apply decisions, and the context of a host cluster with the
    kubeconfig that has it.

    `selector` says by labels which workloads of the host count; None for all of customers.
    `moves_volumes` lets workloads with volumes move.
    """

    watched: bool
    applied: bool
    host_context: str | None
    selector: str | None
    kubeconfig: Path | None
    moves_volumes: bool

    def host(self) -> Host | None:
        """The host cluster; None without one. Raises UsageError, InputError."""
        # Here, as the Kubernetes client takes longer to load than OPA to decide.
        from fairlead.placement.hosts import Host

        return Host.of_context(self.host_context, self.kubeconfig) if self.host_context else None


_ACCEPT = "accept"
_OPTIONS = (
    click.option(
        "--watch",
        "watched",
        is_flag=True,
        help="Decide again whenever workloads, data or policies change, and show what moves; with "
        "--apply, carry it out. Until Ctrl-C.",
    ),
    click.option(
        "--apply",
        "applied",
        is_flag=True,
        help="With --host and -o karmada: apply Karmada's policies in the host cluster.",
    ),
    click.option(
        "--host",
        metavar="CONTEXT",
        help="Read the workloads from the host cluster of this context, and the data from its "
        "ConfigMap fairlead/placement, instead of files.",
    ),
    click.option(
        "--selector",
        metavar="LABELS",
        help="The workloads of the host cluster that count, by a label selector.  [default: those "
        "of a customer, by an annotation or a label of them or of their namespace]",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig that has the context.  [default: KUBECONFIG or ~/.kube/config]",
    ),
    click.option(
        "--move-volumes",
        "moves_volumes",
        type=click.Choice(("refuse", _ACCEPT)),
        default="refuse",
        show_default=True,
        help="Whether a workload with claims may leave a cluster where it runs: what its volumes "
        "hold does not move along.",
    ),
)
_NAMES = ("watched", "applied", "selector", "kubeconfig")


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `execution`, an Execution. Raises UsageError for
    options that do not go together.
    """

    @click.pass_context
    @functools.wraps(command)
    def with_execution(context: click.Context, *arguments: Any, **parameters: Any) -> Any:
        execution = Execution(
            host_context=parameters.pop("host"),
            moves_volumes=parameters.pop("moves_volumes") == _ACCEPT,
            **{name: parameters.pop(name) for name in _NAMES},
        )
        _check(execution, parameters["output"])
        _check_files(context, execution, parameters["paths"])
        return command(*arguments, execution=execution, **parameters)

    for option in reversed(_OPTIONS):
        with_execution = option(with_execution)
    return with_execution


def _check(execution: Execution, output: str) -> None:
    if execution.applied and (output != place_formats.KARMADA or not execution.host_context):
        raise UsageError(
            "--apply writes Karmada's policies into the host cluster: add -o karmada and name the "
            "context of Karmada's API server by --host CONTEXT"
        )
    if execution.kubeconfig and not execution.host_context:
        raise UsageError("--kubeconfig is for --host: add that, or leave --kubeconfig out")
    if execution.watched and output not in (*out.FORMATS, place_formats.KARMADA):
        raise UsageError(f"--watch shows what moves, not -o {output}: leave out one of them")


def _check_files(context: click.Context, execution: Execution, paths: tuple[Path, ...]) -> None:
    has_data = context.get_parameter_source("data_sources") is not ParameterSource.DEFAULT
    if execution.host_context and (paths or has_data):
        raise UsageError(
            f"--host reads workloads and data from the cluster: leave out "
            f"{'--data' if has_data else '-f'}"
        )
    if not execution.host_context and context.get_parameter_source("selector") is not (
        ParameterSource.DEFAULT
    ):
        raise UsageError("--selector is for --host: leave it out")

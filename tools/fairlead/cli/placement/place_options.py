"""The options of `fairlead place` that say where decisions are carried out, and whether they are
watched."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairlead.cli import output as out
from fairlead.cli.placement import place_formats
from fairlead.common.errors import UsageError
from fairlead.federation import steps

if TYPE_CHECKING:
    from fairlead.federation.members import Member


@dataclass(frozen=True)
class Execution:
    """What to do with decisions: whether to watch and to apply them; the members as `--member` has
    them, or the context of a host cluster; the kubeconfig that has their contexts; for how many
    seconds to wait for pods; and which share of an application's replicas may move at once.

    `selector` says by labels which workloads of the host count.
    """

    watched: bool
    applied: bool
    members: tuple[str, ...]
    host: str | None
    selector: str
    kubeconfig: Path | None
    timeout: float
    share: float

    def host_member(self) -> Member | None:
        """The host cluster; None without one. Raises UsageError, InputError."""
        from fairlead.federation.members import Member

        return Member.of_context(self.host, self.kubeconfig) if self.host else None


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
        help="Apply the manifests in the member clusters, each with its share of the replicas; "
        "with -o karmada, Karmada's policies in the host cluster.",
    ),
    click.option(
        "--member",
        "members",
        metavar="NAME[=CONTEXT]",
        multiple=True,
        help="A member cluster: its name in the data, and the context that leads to it; without a "
        "context, the cluster that `fairlead up --member NAME` started. Repeatable.",
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
        default="customer",
        show_default=True,
        help="The workloads of the host cluster that count, by a label selector.",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig that has the contexts.  [default: KUBECONFIG or ~/.kube/config]",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0),
        default=300.0,
        show_default=True,
        help="Seconds to wait in each step for pods in new clusters, before old ones are removed.",
    ),
    click.option(
        "--share",
        type=click.FloatRange(min=0, min_open=True, max=1),
        default=steps.SHARE,
        show_default=True,
        help="How much of an application's replicas moves between clusters at once; one replica at "
        "least.",
    ),
)
_NAMES = ("watched", "applied", "members", "host", "selector", "kubeconfig", "timeout", "share")


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets them as `execution`, an Execution. Raises UsageError for
    options that do not go together.
    """

    @click.pass_context
    @functools.wraps(command)
    def chosen(context: click.Context, *arguments: Any, **others: Any) -> Any:
        execution = Execution(**{name: others.pop(name) for name in _NAMES})
        _check(execution, others["output"])
        _check_files(context, execution, others["paths"])
        return command(*arguments, execution=execution, **others)

    for option in reversed(_OPTIONS):
        chosen = option(chosen)
    return chosen


def _check(execution: Execution, output: str) -> None:
    if math.isnan(execution.share):  # which is in any range, for click
        raise UsageError("--share nan: a number above 0, up to 1, is expected, such as 0.25")
    karmada = output == place_formats.KARMADA
    applied, members, host = execution.applied, execution.members, execution.host
    if applied and karmada and (members or not host):
        raise UsageError(
            "-o karmada --apply writes policies into the host cluster: name its context by "
            "--host CONTEXT, and no --member"
        )
    if applied and not karmada and output not in out.FORMATS:
        raise UsageError(f"-o {output} prints what others carry out: leave out it, or --apply")
    if applied and host and not karmada:
        raise UsageError("--apply in a host cluster is for Karmada alone: add -o karmada")
    if applied and not (members or host):
        raise UsageError("--apply needs to know the clusters: name each by --member NAME=CONTEXT")
    if members and not applied and not execution.watched:
        raise UsageError("--member is for --apply and --watch: add one, or leave --member out")
    if execution.kubeconfig and not (members or host):
        raise UsageError(
            "--kubeconfig is for --apply and --host: add one, or leave --kubeconfig out"
        )
    if execution.watched and output not in (*out.FORMATS, place_formats.KARMADA):
        raise UsageError(f"--watch shows what moves, not -o {output}: leave out one of them")


def _check_files(context: click.Context, execution: Execution, paths: tuple[Path, ...]) -> None:
    named = context.get_parameter_source("data_sources") is not ParameterSource.DEFAULT
    if execution.host and (paths or named):
        raise UsageError(
            f"--host reads workloads and data from the cluster: leave out "
            f"{'--data' if named else '-f'}"
        )
    if not execution.host and context.get_parameter_source("selector") is not (
        ParameterSource.DEFAULT
    ):
        raise UsageError("--selector is for --host: leave it out")

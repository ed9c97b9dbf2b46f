"""Options that several commands share, each declared once."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fairlead.cli.output import FORMATS
from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.clusters.remote import RemoteCluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.sidecars import SIDECARS

output = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Form of the result.",
)
yes = click.option(
    "--yes",
    is_flag=True,
    help="Ask nothing before a cluster is touched that Fairlead did not make.",
)
sidecar = click.option(
    "--sidecar",
    type=click.Choice(list(SIDECARS)),
    help="What keeps OPA current; by default what the cluster has: sync where it is embedded, else "
    "kube-mgmt.",
)
policies = click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder of the policies, instead of the checkout's own.",
)
settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help="The settings file, instead of FAIRLEAD_SETTINGS or fairlead.yaml.",
)

_CLUSTER = (
    click.option(
        "--cluster",
        "kind",
        type=click.Choice(list(registry.KINDS)),
        default="embedded",
        show_default=True,
        envvar="FAIRLEAD_CLUSTER",
        show_envvar=True,
        help="Kind of cluster.",
    ),
    click.option(
        "--name",
        help=f"Name of the cluster, for kind also KIND_CLUSTER_NAME.  [default: {registry.NAME}]",
    ),
    click.option(
        "--context",
        help="The cluster of this context, also FAIRLEAD_CONTEXT; implies --cluster context.",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig that has the context.  [default: KUBECONFIG or ~/.kube/config]",
    ),
)


def own_cluster(command_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --name of a command that makes a cluster for itself, by default named like the
    command.
    """

    def checked(_: click.Context, __: click.Parameter, value: str) -> str:
        registry.check_not_empty("--name", value)
        return value

    words = "Name of the command's own cluster."
    return click.option(
        "--name", default=command_name, show_default=True, callback=checked, help=words
    )


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that choose a cluster; the command gets them as `target`, a registry.Target."""

    @functools.wraps(command)
    def chosen(
        *arguments: Any,
        kind: str,
        name: str | None,
        context: str | None,
        kubeconfig: Path | None,
        **others: Any,
    ) -> Any:
        return command(*arguments, target=_target(kind, name, context, kubeconfig), **others)

    for option in reversed(_CLUSTER):
        chosen = option(chosen)
    return chosen


def ask(target: registry.Target, cluster: Cluster, what: str, *, yes: bool) -> None:
    """Ask whether to go on where Fairlead neither made the cluster nor was deployed there before.

    Raises FairleadError where the answer is no, UsageError where nobody can answer.
    """
    if yes or target.kind != "context" or not isinstance(cluster, RemoteCluster) or cluster.known():
        return
    described = cluster.described()
    if not sys.stdin.isatty():
        raise UsageError(
            f"this would {what} a cluster that Fairlead did not make ({described}): say so by --yes"
        )
    if not click.confirm(
        f"Fairlead did not make this cluster: {described}. {what.capitalize()} it?", err=True
    ):
        raise FairleadError("nothing was changed: choose another cluster by --context")


def _target(
    kind: str, name: str | None, context: str | None, kubeconfig: Path | None
) -> registry.Target:
    explicit = (
        click.get_current_context().get_parameter_source("kind") is ParameterSource.COMMANDLINE
    )
    return registry.chosen(
        "context" if context is not None and not explicit else kind, name, context, kubeconfig
    )

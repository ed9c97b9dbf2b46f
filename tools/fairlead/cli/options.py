"""The options that several commands share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fairlead.cli import component_options
from fairlead.cli import output as out
from fairlead.cli.output import FORMATS
from fairlead.clusters import registry
from fairlead.common import paths
from fairlead.common.errors import FairleadError, UsageError
from fairlead.deployment.engine_names import ENGINES
from fairlead.deployment.sidecars import BESIDE_OPA
from fairlead.policy import fairlead_yaml, parameter_rules
from fairlead.policy.policy_files import PolicyFiles
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

if TYPE_CHECKING:
    from fairlead.clusters.base import Cluster


def output_in(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option that chooses one of `formats` for the result; by default a table."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default="table",
        show_default=True,
        help="Format of the result.",
    )


output = output_in(*FORMATS)
manifests = click.argument(
    "paths", metavar="FILE|FOLDER|-...", type=click.Path(path_type=Path), nargs=-1, required=True
)
"""Where the manifests are that a command reads; - is standard input."""


def manifest_flag(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Files and folders of manifests, as kubectl takes them: `-f FILE`. The command gets them as
    `name`.
    """
    return click.option(
        "-f",
        "--filename",
        name,
        metavar="FILE|FOLDER|-",
        type=click.Path(path_type=Path),
        multiple=True,
        help="A file or folder of manifests, as kubectl has it; repeatable.",
    )


def manifests_by_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    """Files and folders of manifests as arguments, and as kubectl takes them: `-f FILE`.

    The command gets all of them as `paths`. There may be none only with its option `--host`, which
    names the cluster that has them.
    """

    @click.argument(
        "positional", metavar="[FILE|FOLDER|-]...", type=click.Path(path_type=Path), nargs=-1
    )
    @manifest_flag("flagged")
    @functools.wraps(command)
    def wrapper(
        *arguments: Any, positional: tuple[Path, ...], flagged: tuple[Path, ...], **keywords: Any
    ) -> Any:
        if not (positional or flagged or keywords.get("host")):
            raise click.UsageError("Missing a file or folder of manifests: -f FILE.")
        return command(*arguments, paths=(*flagged, *positional), **keywords)

    return wrapper


yes = click.option(
    "--yes",
    is_flag=True,
    help="Do not ask before changing a cluster that Fairlead did not create.",
)
sidecar = click.option(
    "--sidecar",
    type=click.Choice(BESIDE_OPA),
    help="What keeps OPA current.  [default: the deployed one; in a new deployment sync, or "
    "kube-mgmt in a KIND cluster]",
)


engine = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What enforces the policies: opa; cel for admission policies of the API server without "
    "any pod; or python for functions in Python.  [default: what is deployed; in a new deployment "
    "opa]",
)
new_engine = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default=ENGINES[0],
    show_default=True,
    help="What enforces the policies: opa; cel for admission policies of the API server without "
    "any pod; or python for functions in Python.",
)
placement_data = click.option(
    "--data",
    "data_sources",
    metavar="FILE|URL",
    multiple=True,
    default=("data.yaml",),
    show_default=True,
    help="OPA's data, the clusters and the customers: a file, or an http(s) URL, whose last good "
    "answer counts while there is none. Repeatable: later ones change what earlier ones say, such "
    "as prices.",
)
message = click.option(
    "-m",
    "--message",
    help="Why, in one line; `fairlead history` shows it.",
)
policies = click.option(
    "--policies",
    "policies_folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder of policies, besides those of the settings. A main.rego in it replaces "
    "Fairlead's.",
)
settings = component_options.settings


def _clusters(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The names of clusters that a shell offers for `--name`."""
    try:
        names = {cluster.name for cluster in registry.known()}
    except FairleadError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


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
        shell_complete=_clusters,
        help="Name of the cluster; for kind, KIND_CLUSTER_NAME sets it too.  "
        f"[default: {registry.NAME}]",
    ),
    click.option(
        "--context",
        help="Use the cluster of this context; implies --cluster context.  "
        "[env var: FAIRLEAD_CONTEXT]",
    ),
    click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="The kubeconfig that has the context.  [default: KUBECONFIG or ~/.kube/config]",
    ),
)


def own_cluster(command_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option --name of a command that creates its own cluster. The default is the command's
    name.
    """

    def checked(_: click.Context, __: click.Parameter, value: str) -> str:
        registry.check_not_empty("--name", value)
        return value

    words = "Name of the command's own cluster."
    return click.option(
        "--name", default=command_name, show_default=True, callback=checked, help=words
    )


def cluster(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose a cluster. The command gets them as `target`, a
    registry.Target.
    """

    @functools.wraps(command)
    def wrapper(
        *arguments: Any,
        kind: str,
        name: str | None,
        context: str | None,
        kubeconfig: Path | None,
        **keywords: Any,
    ) -> Any:
        return command(*arguments, target=_target(kind, name, context, kubeconfig), **keywords)

    for option in reversed(_CLUSTER):
        wrapper = option(wrapper)
    return wrapper


def load(settings_file: Path | None) -> Settings:
    """The settings in force; says on stderr which file they come from, if there is one. Raises
    InputError, UsageError.
    """
    with out.progress() as progress:
        settings = fairlead_yaml.load(settings_file, parameter_rules.rules(progress))
    _note(settings_file)
    return settings


def load_policies(
    settings_file: Path | None, folder: Path | None, *, further: Iterable[str] = ()
) -> PolicySet:
    """The policies in force by these settings, and those of a folder; see PolicySet.load."""
    settings, files = _read(settings_file)
    return PolicySet.load(settings, folder, files=files, further=further)


def load_examples(settings_file: Path | None, folder: Path | None) -> PolicySet:
    """The same policies, for checks; see PolicySet.examples."""
    settings, files = _read(settings_file)
    return PolicySet.examples(settings, folder, files=files)


def _read(settings_file: Path | None) -> tuple[Settings, PolicyFiles]:
    with out.progress() as progress:
        settings, files = fairlead_yaml.read(settings_file, parameter_rules.rules(progress))
    _note(settings_file)
    return settings, files


def _note(settings_file: Path | None) -> None:
    file = fairlead_yaml.find(settings_file)
    if file is not None:
        out.note(f"settings: {paths.shown(file)}")


def ask(
    target: registry.Target, cluster: Cluster, action: str, *, confirmed: bool, review: bool = False
) -> None:
    """Ask for confirmation if Fairlead neither created the cluster nor was deployed there before.
    With `review`, ask about any cluster if stdin is a terminal.

    Raises FairleadError if the answer is no, UsageError if stdin is not a terminal.
    """
    from fairlead.clusters.remote import RemoteCluster  # see registry: it takes long to load

    if confirmed:
        return
    ours = target.kind != "context" or not isinstance(cluster, RemoteCluster) or cluster.known()
    if ours and not (review and sys.stdin.isatty()):
        return
    described = f"cluster {cluster.name}"
    if isinstance(cluster, RemoteCluster):
        described = cluster.described()
    if not sys.stdin.isatty():
        raise UsageError(
            f"this would {action} a cluster that Fairlead did not create ({described}): confirm it "
            "with --yes"
        )
    question = (
        f"{action.capitalize()} it ({described})?"
        if ours
        else f"Fairlead did not create this cluster: {described}. {action.capitalize()} it?"
    )
    if not click.confirm(question, err=True):
        hint = "" if ours else ": choose another cluster with --context"
        raise FairleadError(f"nothing was changed{hint}")


def _target(
    kind: str, name: str | None, context: str | None, kubeconfig: Path | None
) -> registry.Target:
    explicit = (
        click.get_current_context().get_parameter_source("kind") is ParameterSource.COMMANDLINE
    )
    target = registry.chosen(
        "context" if context is not None and not explicit else kind, name, context, kubeconfig
    )
    cluster = registry.recognized(target)
    if cluster != target:
        origin = f"context {target.context}" if target.context else "the current context"
        kinds = {"embedded": "the embedded cluster", "kind": "the KIND cluster"}
        out.note(f"{origin} leads to {kinds[cluster.kind]} {cluster.name}, which Fairlead made")
    return cluster

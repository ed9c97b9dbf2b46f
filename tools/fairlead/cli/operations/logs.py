"""`fairlead logs`: show the logs of the servers, and the decisions in them."""

from __future__ import annotations

import itertools
import json
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import click
from click.core import ParameterSource

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.clusters import registry
from fairlead.clusters.base import Cluster
from fairlead.common import durations, texts
from fairlead.common.errors import UsageError
from fairlead.opa import decision_entries
from fairlead.operations import decision_logs
from fairlead.operations.decision_logs import Selection

_COLUMNS = ("time", "user", "request", "verdict", "reason")
# Parameter -> option, of those that select or print decisions.
_OF_DECISIONS = {
    "uid": "--id",
    "namespace": "--namespace",
    "name_pattern": "--object",
    "denied": "--denied",
    "since": "--since",
    "output": "--output",
}


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> timedelta | None:
    try:
        return None if value is None else durations.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command()
@click.argument("server", default="opa")
@options.cluster
@click.option("-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0),
    default=50,
    show_default=True,
    help="Number of lines from the end of each log, or of the last decisions.",
)
@click.option("--namespace", help="Decisions only: those about objects of this namespace.")
@click.option(
    "--object",
    "name_pattern",
    metavar="NAME",
    help="Decisions only: those about this object, or about pods that it owns; * stands for any "
    "characters.",
)
@click.option("--denied", is_flag=True, help="Decisions only: those that refused a request.")
@click.option(
    "--since",
    metavar="DURATION",
    callback=_duration,
    help="Decisions only: those of this last time, such as 90s, 15m or 2h.",
)
@click.option(
    "--id",
    "uid",
    metavar="UID",
    help="Decisions only: the one with this UID, from the audit log's annotation decisionUID.",
)
@options.output
def command(
    server: str,
    target: registry.Target,
    follow: bool,
    lines: int,
    namespace: str | None,
    name_pattern: str | None,
    denied: bool,
    since: timedelta | None,
    uid: str | None,
    output: str,
) -> None:
    """Show the log of SERVER: opa, sidecar, controller, or any other that
    `fairlead status` lists.

    If there are several pods, the logs of all are shown, and each line begins with the name of its
    server. A decision in a log is shown as a short line.

    With `decisions` as SERVER, show the decisions in the logs of all servers: when, who, what, the
    verdict and the reason; equal ones in a row have one row. `-o json` prints whole entries of
    OPA's decision log; with --follow, each on a line of its own.

    Exit code: 1 if there is no such decision.
    """
    if server == "decisions":
        selection = Selection(uid, namespace, name_pattern, denied, since)
        _decisions(_cluster(target), selection, lines, follow, output)
        return
    _refuse_options_of_decisions()
    for text in decision_logs.short(registry.find(target).logs(server, lines, follow)):
        sys.stdout.write(texts.printable(text, keep="\n\t"))
        sys.stdout.flush()


def _cluster(target: registry.Target) -> Cluster:
    """The cluster of the decisions. Raises UsageError with a hint for whoever means the object by
    --name.
    """
    try:
        return registry.find(target)
    except UsageError as error:
        if target.name != registry.NAME:
            raise UsageError(
                f"{error}. --name names the cluster: to name an object, use --object"
            ) from error
        raise


def _decisions(
    cluster: Cluster, selection: Selection, lines: int, follow: bool, output: str
) -> None:
    if follow:
        if output == "yaml":
            raise UsageError("YAML cannot be followed: use -o json, or leave out --follow")
        for entry in decision_logs.followed(cluster, selection, lines):
            if output == "json":
                out.line(json.dumps(entry, sort_keys=True))
            else:
                out.record(decision_entries.summary(entry)[column] for column in _COLUMNS)
            sys.stdout.flush()
        return
    entries = decision_logs.decisions(cluster, selection)[-lines:] if lines else []
    summaries = map(decision_entries.summary, entries)
    out.emit(entries, output, out.rows(None, _COLUMNS, [*_joined(summaries)]))


def _joined(summaries: Iterable[Mapping[str, str | None]]) -> Iterator[dict[str, str | None]]:
    """Summaries, of which one stands for equal ones in a row: a controller whose pods are refused
    asks again and again.
    """
    alike = operator.itemgetter("user", "request", "verdict", "reason")
    for _, group in itertools.groupby(summaries, alike):
        first, *others = group
        times = f" ({len(others) + 1} times, until {others[-1]['time']})" if others else ""
        yield {**first, "reason": f"{first['reason'] or ''}{times}".strip() or None}


def _refuse_options_of_decisions() -> None:
    context = click.get_current_context()
    for parameter, option in _OF_DECISIONS.items():
        if context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} is only for decisions: run `fairlead logs decisions {option} ...`"
            )

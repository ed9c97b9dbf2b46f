"""`fairlead access`: transient role bindings for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.console import Console

from fairlead.access import instants, requests
from fairlead.access.bindings import Key
from fairlead.access.requests import Request
from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.cli.component_options import duration
from fairlead.clusters import registry
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import durations, texts
from fairlead.common.errors import FairleadError, UsageError
from fairlead.demos import access as demo_access
from fairlead.operations import up
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

_COLUMNS = ("namespace", "name", "role", "subjects", "from", "until", "left", "effective", "why")
_EVENTS = ("time", "namespace", "name", "event", "message")

_namespace = click.option(
    "-n", "--namespace", help="The namespace.  [default: the whole cluster]", default=""
)
_binding = click.argument("binding", metavar="BINDING")


@click.group()
def command() -> None:
    """Give access that ends on time, approve it, revoke it, and see what happened.

    Times are shown in the local zone. The setting `access` switches this on; docs/access.md
    explains it.
    """


@command.command("list")
@click.option("-n", "--namespace", help="Only this namespace.  [default: all]")
@options.cluster
@options.output
def list_(namespace: str | None, target: registry.Target, output: str) -> None:
    """List who has which role until when, and what is left of it."""
    lines = requests.listed(registry.find(target).objects(), namespace)
    out.emit(lines, output, out.rows(None, _COLUMNS, [_shown(line) for line in lines]))


@command.command()
@_binding
@_namespace
@click.option("--clusterrole", metavar="NAME", help="The ClusterRole to give.")
@click.option("--role", metavar="NAME", help="The Role of the namespace to give.")
@click.option("--user", "users", metavar="NAME", multiple=True, help="Who gets it; repeatable.")
@click.option("--group", "groups", metavar="NAME", multiple=True, help="The same for a group.")
@click.option(
    "--serviceaccount",
    "accounts",
    metavar="NAMESPACE:NAME",
    multiple=True,
    help="The same for a service account.",
)
@click.option(
    "--for",
    "length",
    metavar="DURATION",
    callback=duration,
    help="For how long, such as 2h; required.",
)
@click.option(
    "--from",
    "begin",
    metavar="TIME",
    help="From when: 2026-11-24T09:00, in the local zone unless it names one.  [default: now]",
)
@click.option("--reason", help="Why, for those who read it later.")
@click.option("--needs-approval", is_flag=True, help="Begin only when an approver has agreed.")
@options.cluster
@options.output
def grant(
    binding: str,
    namespace: str,
    clusterrole: str | None,
    role: str | None,
    users: tuple[str, ...],
    groups: tuple[str, ...],
    accounts: tuple[str, ...],
    length: timedelta | None,
    begin: str | None,
    reason: str | None,
    needs_approval: bool,
    target: registry.Target,
    output: str,
) -> None:
    """Give a role for a while. The transient binding is named BINDING, and so is the binding.

    You need the right to bind the role. Without --namespace, the role holds in the whole cluster.

    Exit code: 1 if it is clear at once that it gives no access. The transient binding is
    then deleted again.
    """
    if bool(clusterrole) == bool(role):
        raise UsageError("give one role: --clusterrole NAME, or --role NAME with --namespace")
    if role and not namespace:
        raise UsageError("--role is about a namespace: name it with --namespace")
    if not length:
        raise UsageError("say for how long: --for 2h")
    request = Request(
        (namespace, binding),
        ("Role", role) if role else ("ClusterRole", str(clusterrole)),
        _subjects(users, groups, accounts),
        _time(begin),
        length,
        reason,
        needs_approval,
    )
    objects = registry.find(target).objects()
    line = requests.grant(objects, request)
    settled, failure = requests.settled(objects, request.key)
    _emit(settled or line, output)
    if failure:
        try:
            requests.revoke(objects, request.key)
        except FairleadError as error:
            raise FairleadError(
                f"{binding} gives no access: {failure}; it could not be deleted again: {error}"
            ) from error
        raise FairleadError(f"{binding} gives no access, and is deleted again: {failure}")
    if settled is None:
        out.note("no controller has decided about it yet: `fairlead status` says whether one works")


@command.command()
@_binding
@_namespace
@options.cluster
@options.output
def approve(binding: str, namespace: str, target: registry.Target, output: str) -> None:
    """Approve access that somebody else asked for."""
    _emit(requests.approve(registry.find(target).objects(), (namespace, binding)), output)


@command.command()
@_binding
@_namespace
@options.cluster
@options.output
def revoke(binding: str, namespace: str, target: registry.Target, output: str) -> None:
    """End access now. Returns when the binding is gone."""
    key: Key = (namespace, binding)
    with out.progress() as progress:
        progress.update(binding, "revoking")
        result = requests.revoke(registry.find(target).objects(), key)
        progress.finish(binding, "revoked")
    out.emit(result, output, out.rows(None, tuple(result), [result]))


@command.command()
@click.option("-n", "--namespace", help="Only this namespace.  [default: all]")
@options.cluster
@options.output
def history(namespace: str | None, target: registry.Target, output: str) -> None:
    """Show what was given, taken away and refused, the oldest first. API servers keep these Events
    for an hour.
    """
    lines = requests.history(registry.find(target).objects(), namespace)
    rows = [_event(line) for line in lines]
    out.emit(lines, output, out.rows(None, _EVENTS, rows))


@command.command()
@options.own_cluster("demo-access")
@options.output
def demo(name: str, output: str) -> None:
    """See a grant of 20 s in a new cluster, from its request to its end: what its subject may do at
    each second.
    """
    settings = Settings(access=Access(roles=[demo_access.ROLE]))
    with out.progress() as progress:
        EmbeddedCluster(name).down()
        with up.started(name, settings, {"pool1": 1}, progress=progress) as cluster:
            rows = demo_access.run(cluster, progress=progress)
            history = requests.history(cluster.objects())

    def draw(console: Console) -> None:
        cells = [
            {
                "second": f"{row['second']:+d}",
                "listPods": "200 OK" if row["allowed"] else "403 Forbidden",
                "left": _left(row["left"]),
                "status": row["why"],
            }
            for row in rows
        ]
        styles = {"listPods": "bold"}
        title = f"What {demo_access.SUBJECT} may do, by seconds from the beginning of the window"
        out.rows(title, ("second", "listPods", "left", "status"), cells, styles)(console)
        console.print()
        events = [_event(line) for line in history]
        out.rows("History", ("time", "event", "message"), events)(console)

    out.emit({"seconds": rows, "history": history}, output, draw)
    demo_access.check(rows)


def _emit(line: dict[str, Any], output: str) -> None:
    out.emit(line, output, out.rows(None, _COLUMNS, [_shown(line)]))


def _shown(line: dict[str, Any]) -> dict[str, Any]:
    """A line as people read it."""
    first, *further = line["subjects"]
    return _printable(
        {
            **line,
            "subjects": f"{first} and {len(further)} more" if further else first,
            "from": _local(line["validFrom"]),
            "until": _local(line["validUntil"]),
            "left": _left(line["left"]),
            "effective": "yes" if line["effective"] else "no",
        }
    )


def _event(line: dict[str, Any]) -> dict[str, Any]:
    return _printable({**line, "time": _local(line["time"])})


def _printable(line: dict[str, Any]) -> dict[str, Any]:
    """The line without what would begin a row of its own, or turn one round: users write parts."""
    return {
        column: texts.printable(value) if isinstance(value, str) else value
        for column, value in line.items()
    }


def _local(time: str) -> str:
    """The time in the local zone; as it is written if no calendar has it."""
    try:
        moment = instants.moment(instants.nanoseconds(time))
    except (ValueError, OverflowError):
        return time
    return moment.isoformat(sep=" ", timespec="seconds")


def _left(seconds: float | None) -> str:
    return "-" if seconds is None else durations.rough(timedelta(seconds=seconds), 2)


def _subjects(
    users: tuple[str, ...], groups: tuple[str, ...], accounts: tuple[str, ...]
) -> list[dict[str, str]]:
    subjects = [{"kind": "User", "name": name} for name in users]
    subjects += [{"kind": "Group", "name": name} for name in groups]
    for account in accounts:
        namespace, colon, name = account.partition(":")
        if not (namespace and colon and name):
            raise UsageError(f"--serviceaccount: {account!r} is not NAMESPACE:NAME")
        subjects.append({"kind": "ServiceAccount", "name": name, "namespace": namespace})
    if not subjects:
        raise UsageError("nobody would get the role: give --user, --group or --serviceaccount")
    return subjects


def _time(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC).replace(microsecond=0)
    try:
        return instants.written(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--from: {error}") from error

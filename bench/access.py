"""Measures when access begins and ends, with and without servers that are killed, and what 5,000
transient bindings cost; writes bench/access.json and prints it.

An observer sees the RoleBindings by a watch, and access by SubjectAccessReviews, and compares that
with the windows by the clock of the same machine. These are figures, not tests: a busy machine has
worse ones. `make figures-access ARGS='--only kills --kills 5'` measures a part. Each figure has its
own cluster.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
from recovery import Row, measured, memory, row

from fairlead.access import requests
from fairlead.access.bindings import GROUP, LOCAL, RBAC, VERSION, path
from fairlead.cli import output
from fairlead.clusters.embedded import process_list
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common import waiting
from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.deployment.names import ACCESS
from fairlead.kube import identity
from fairlead.kube.clients import BRIEF, Objects
from fairlead.opa.api import OpaApi
from fairlead.operations.transient_access import controllers
from fairlead.operations.up import started
from fairlead.settings.access import Access
from fairlead.settings.models import Settings
from lab.chaos.report import percentile

RESULTS = "bench/access.json"
NAMESPACE, ROLE = "shop", "reader"
SETTINGS = Settings(access=Access(roles=[ROLE]))
CLIENTS = 8
AHEAD, SPREAD, LENGTH = 10.0, 20.0, 30.0
"""The windows begin this many seconds after they were asked for, within SPREAD seconds, and last
for LENGTH: all of them overlap."""
STEADY = 60.0
"""Seconds for which the steady state is measured."""
KILLED = {"controller": ACCESS, "OPA": "opa", "API server": "kube-apiserver"}
"""What is killed, and its name in the cluster."""
_PATIENCE = 600.0
_RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
_WORLD: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [_RULE],
    },
)


class World:
    """A cluster with the controller, and one who grants and looks in it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        objects = cluster.objects()
        for manifest in _WORLD:
            objects.apply(manifest)
        self._user, self._groups = identity.user_and_groups(objects)

    def api(self) -> Objects:
        """A client of the API server, for one thread."""
        return Objects(self.cluster.kubeconfig)

    def grant(self, api: Objects, name: str, begin: float, end: float) -> None:
        """Ask for access of a user of this name, with retries. Times are in seconds since the
        epoch.
        """
        manifest = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": LOCAL.parent,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "validFrom": _spelled(begin),
                "validUntil": _spelled(end),
                "roleRef": {"kind": "ClusterRole", "name": ROLE},
                "subjects": [{"kind": "User", "name": name}],
                "requestedBy": self._user,
                "requestedByGroups": self._groups,
            },
        }
        where = path(LOCAL.parents, NAMESPACE)

        def created() -> bool:
            answer = api.request("POST", where, manifest)
            if not answer.ok and answer.status != 409:
                raise FairleadError(answer.message)
            return True

        waiting.until(created, deadline=_PATIENCE, what=f"{name} is created")

    def allowed(self, api: Objects, user: str) -> bool:
        """Whether the user has access now. Raises FairleadError if the API server does not say."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user,
                "resourceAttributes": {"namespace": NAMESPACE, "resource": "pods", "verb": "list"},
            },
        }
        answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        if not answer.ok:
            raise FairleadError(answer.message)
        return answer.body["status"]["allowed"] is True

    def pid(self, server: str) -> int:
        """The process id of a server, once it runs."""
        record = waiting.until(
            lambda: self.cluster.servers()[server]["pid"],
            deadline=_PATIENCE,
            what=f"{server} runs",
        )
        return int(record)


class Bindings:
    """When each RoleBinding was made and deleted, as a watch tells it: name -> seconds since the
    epoch.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.made: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._api = Objects(kubeconfig, timeout=BRIEF)
        self._opened = Event()

    def watch(self) -> None:
        """Watch from now on, in a thread of its own."""
        Thread(target=self._follow, daemon=True).start()
        if not self._opened.wait(_PATIENCE):
            raise FairleadError("the watch does not open")

    def _follow(self) -> None:
        where, version = path(LOCAL.children, NAMESPACE), ""

        def read(resource_version: str) -> None:
            nonlocal version
            version = resource_version

        list(self._api.collection(where, {}, metadata_only=True, version=read))
        events = self._api.events(
            where, {}, version, metadata_only=True, seconds=3600, on_open=self._opened.set
        )
        with suppress(FairleadError):  # the cluster is stopped in the end
            for type_, value in events:
                times = {"ADDED": self.made, "DELETED": self.gone}.get(type_)
                if times is not None:
                    times[value["metadata"]["name"]] = time.time()


def windows(count: int, progress: Progress) -> list[Row]:
    """Windows that overlap: how late access begins and ends."""
    with _world("windows", progress) as world:
        seen = Bindings(world.cluster.kubeconfig)
        seen.watch()
        start = time.time() + AHEAD + count / 20
        begins = {f"window-{n}": start + SPREAD * n / count for n in range(count)}
        progress.update("windows", f"asking for {count}")
        _each(world, begins, lambda api, name: _ask(world, api, name, begins[name]))
        if time.time() > start:
            raise FairleadError("asking took too long: choose fewer --windows")
        progress.update("windows", "waiting for their beginnings and ends")
        waiting.until(
            lambda: len(seen.gone) == count,
            deadline=_PATIENCE,
            what="every window has begun and ended",
            pause=0.5,
        )
    late = {
        "begins": [seen.made[name] - begin for name, begin in begins.items()],
        "ends": [seen.gone[name] - begin - LENGTH for name, begin in begins.items()],
    }
    what = "windows that overlap: access"
    return [
        *(
            row(f"{what} {how} late", count, metric, "s", percentile(times, percent), target)
            for how, times in late.items()
            for metric, percent, target in (
                ("p50", 50, None),
                ("p99", 99, 1.0),
                ("most", 100, None),
            )
        ),
        row(f"{what} begins early", count, "windows", "", _negative(late["begins"]), 0),
        row(f"{what} ends early", count, "windows", "", _negative(late["ends"]), 0),
    ]


def kills(count: int, progress: Progress) -> list[Row]:
    """A server is killed half a second before one window ends and another begins."""
    rows = []
    with _world("kills", progress) as world:
        for what, server in KILLED.items():
            rounds = []
            for number in range(count):
                progress.update("kills", f"killing the {what}", done=number, total=count)
                rounds.append(_killed(world, server, f"{server}-{number}"))
            for how in ("ends", "begins"):
                after = [max(0.0, each[how] - each["back"]) for each in rounds]
                title = f"{what} is killed: access {how}"
                rows += [
                    row(
                        f"{title}, after it is back",
                        count,
                        metric,
                        "s",
                        percentile(after, percent),
                        target,
                    )
                    for metric, percent, target in (("p50", 50, None), ("most", 100, 1.0))
                ]
                bounded = how == "ends" and server != KILLED["API server"]
                most = percentile([each[how] for each in rounds], 100)
                rows.append(
                    row(
                        f"{title}, after its time",
                        count,
                        "most",
                        "s",
                        most,
                        10.0 if bounded else None,
                    )
                )
    return rows


def many(count: int, progress: Progress) -> list[Row]:
    """What the controller costs with many bindings that are all in force, and how long a new one
    takes to know them.
    """
    with _world("many", progress) as world:
        begin, end = time.time() - 1, time.time() + 86_400
        names = [f"many-{number}" for number in range(count)]
        progress.update("many", f"asking for {count}")
        _each(world, names, lambda api, name: world.grant(api, name, begin, end))
        _until_held(world, count)
        waiting.until(
            lambda: len(requests.history(world.cluster.objects(), NAMESPACE)) >= count,
            deadline=_PATIENCE,
            what="the trail of all is written",
            pause=2.0,
        )
        pid = world.pid(ACCESS)
        _until_idle(pid)
        progress.update("many", f"measuring for {STEADY:.0f} s")
        used, now = _processor_time(pid), time.monotonic()
        time.sleep(STEADY)
        share = (_processor_time(pid) - used) / (time.monotonic() - now)
        size = memory(pid)
        progress.update("many", "starting another controller")
        os.kill(pid, signal.SIGKILL)
        waiting.until(
            lambda: world.pid(ACCESS) != pid, deadline=_PATIENCE, what="another one is started"
        )
        _until_held(world, count)
        fresh = world.pid(ACCESS)
        _until_idle(fresh)
        again, fresh_size = _processor_time(fresh), memory(fresh)
    what = f"{count:,} bindings"
    return [
        row(f"{what}: steady state", count, "processor", "% of a core", round(share * 100, 2), 5.0),
        row(f"{what}: memory", count, "memory", "MB", size, 250),
        row(f"{what}: start, and a look at all", count, "processor time", "s", round(again, 1)),
        row(f"{what}: memory after a start", count, "memory", "MB", fresh_size, 250),
    ]


def _ask(world: World, api: Objects, name: str, begin: float) -> None:
    world.grant(api, name, begin, begin + LENGTH)


def _killed(world: World, server: str, name: str) -> dict[str, float]:
    """Kill a server half a second before a window ends and another one begins. Returns the seconds
    after that moment at which the access of the first was gone, that of the other was there, and
    the server was back (0 if it was earlier).
    """
    api, before = world.api(), world.pid(server)
    moment = time.time() + 4.0
    world.grant(api, f"{name}-ends", moment - 3600, moment)
    world.grant(api, f"{name}-begins", moment, moment + 3600)
    waiting.until(
        lambda: world.allowed(api, f"{name}-ends"), deadline=_PATIENCE, what="access has begun"
    )
    time.sleep(max(0.0, moment - 0.5 - time.time()))
    record = world.cluster.servers()[server]
    process_list.send(record["pid"], record["started"], signal.SIGKILL)
    times: dict[str, float] = {}

    def look() -> bool:
        with suppress(FairleadError):
            if "back" not in times and world.pid(server) != before and _answers(world, server):
                times["back"] = max(0.0, time.time() - moment)
        # Before it is ready, an API server that starts denies what it does not know yet.
        if "back" in times or server != KILLED["API server"]:
            for what, wanted in (("ends", False), ("begins", True)):
                with suppress(FairleadError):
                    if what not in times and world.allowed(api, f"{name}-{what}") is wanted:
                        times[what] = time.time() - moment
        return len(times) == 3

    waiting.until(look, deadline=_PATIENCE, what=f"{server} is back", pause=0.02)
    api.request("DELETE", path(LOCAL.parents, NAMESPACE, f"{name}-begins"))
    return times


def _answers(world: World, server: str) -> bool:
    """Whether a server that was started again does its work. Raises FairleadError if not."""
    if server == ACCESS:
        return any(each["leading"] for each in controllers(world.cluster))
    if server == KILLED["API server"]:
        return world.api().request("GET", "/readyz").ok
    (opa,) = world.cluster.opas()
    return OpaApi(opa.url, ca=opa.ca).ready()


def _until_held(world: World, count: int) -> None:
    waiting.until(
        lambda: [each["bindings"] for each in controllers(world.cluster)] == [count],
        deadline=_PATIENCE,
        what=f"there are {count} bindings",
        pause=0.5,
    )


def _until_idle(pid: int) -> None:
    """Return when the process uses less than a tenth of a core."""

    def idle() -> bool:
        used = _processor_time(pid)
        time.sleep(2.0)
        return _processor_time(pid) - used < 0.2

    waiting.until(idle, deadline=_PATIENCE, what="the controller has nothing to do")


def _processor_time(pid: int) -> float:
    """The seconds of processor time that a process has used. Source: proc(5), fields 14 and 15."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _each(world: World, names: Any, work: Callable[[Objects, str], None]) -> None:
    """Do the work for each name, by several clients at once."""
    waiting_names = list(names)

    def follow(number: int) -> None:
        api = world.api()
        for name in waiting_names[number::CLIENTS]:
            work(api, name)

    with ThreadPoolExecutor(CLIENTS) as several:
        list(several.map(follow, range(CLIENTS)))


@contextmanager
def _world(name: str, progress: Progress) -> Iterator[World]:
    with started(f"figures-{name}", SETTINGS, {"pool1": 1}, progress=progress) as cluster:
        yield World(cluster)


def _spelled(moment: float) -> str:
    text = datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


def _negative(times: list[float]) -> int:
    return sum(value < 0 for value in times)


@click.command()
@click.option("--only", multiple=True, type=click.Choice(["windows", "kills", "many"]))
@click.option("--windows", "window_count", default=200, show_default=True, type=click.IntRange(1))
@click.option("--kills", "kill_count", default=20, show_default=True, type=click.IntRange(1))
@click.option("--many", "many_count", default=5_000, show_default=True, type=click.IntRange(1))
def main(only: tuple[str, ...], window_count: int, kill_count: int, many_count: int) -> None:
    """Measure when access begins and ends, and what many bindings cost; write bench/access.json."""
    with output.progress() as progress:
        figures: dict[str, Callable[[], list[Row]]] = {
            "windows": lambda: windows(window_count, progress),
            "kills": lambda: kills(kill_count, progress),
            "many": lambda: many(many_count, progress),
        }
        rows = measured(figures, only, RESULTS)
    output.rows("To reach", tuple(row("", 0, "", "", 0)), rows)(output.console())


if __name__ == "__main__":
    main()

"""What decisions are made from, where it is in a host cluster: its workloads, its namespaces, and
the ConfigMap with the data. All are followed by watches of the API server."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Event, Thread
from typing import Any

from fairlead.common import waiting
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.common.yaml_files import Document
from fairlead.deployment import names
from fairlead.kube import admission_reviews, resources
from fairlead.kube.api_requests import BRIEF, MOST, SMALL_PAGE, ApiRequests
from fairlead.kube.errors import Refused, Unreachable
from fairlead.kube.pod_templates import TEMPLATES
from fairlead.placement import data_sources, decisions, karmada, manifest_kinds, wishes
from fairlead.placement.decisions import Inputs
from fairlead.placement.hosts import Host, is_ours
from fairlead.sync import watches
from fairlead.sync.desired import Source
from fairlead.sync.metrics import Metrics
from fairlead.sync.watches import Watch

DATA = "placement"
"""The ConfigMap with the data, in Fairlead's namespace."""
_WORKLOADS = {
    f"{api_version}/{admission_reviews.plural(kind)}": (api_version, kind)
    for group, kind in (*TEMPLATES, manifest_kinds.PODS)
    for api_version in ("/".join(filter(None, (group, "v1"))),)
}
_POLICIES = tuple(
    f"{karmada.API_VERSION}/{plural}" for plural in ("propagationpolicies", "overridepolicies")
)
_LISTED = 30.0
"""Seconds until everything has to be listed at first."""
_NAMESPACES = "namespaces"
_CONFIG = "config"


class HostInputs:
    """The workloads of a host cluster and the data there, as the watches have them. It takes the
    events of sync.watches.Watch, which come in threads of their own.
    """

    def __init__(self, host: str, *, only_of_customers: bool = False) -> None:
        """`host` is the name of the cluster in messages. With `only_of_customers`, workloads count
        only if an annotation or a label of them or of their namespace names a customer.
        """
        self._host = Path(host)
        self._only_of_customers = only_of_customers
        self._objects: dict[str, dict[tuple[str, str], Any]] = {}
        self._version = 0
        self._changed = Condition()
        self.watches: Sequence[Watch] = ()
        """What calls `replace` and `apply`, and knows which objects are too large to be read."""

    def replace(self, source: Source, objects: Iterable[Mapping[str, Any]]) -> None:
        """Replace all objects of the source."""
        read = {_key(each): _thinned(source, each) for each in objects}
        with self._changed:
            if self._objects.get(_name(source)) != read:
                self._objects[_name(source)] = read
                self._tell()

    def apply(self, source: Source, removed: bool, value: Mapping[str, Any]) -> None:
        """Take one event."""
        key = _key(value)
        read = None if removed else _thinned(source, value)
        with self._changed:
            known = self._objects.setdefault(_name(source), {})
            if removed and known.pop(key, None) is not None:
                self._tell()
            elif not removed and known.get(key) != read:
                known[key] = read
                self._tell()

    def read(self, progress: Progress) -> Inputs:
        """Everything as it is now, except what is too large. Annotations that look like wishes and
        are not read are warnings: also where no customer is named, which may be misspelt. Raises
        InputError if the data are missing or cannot be read.
        """
        unread = self._unread()
        with self._changed:
            objects = {name: dict(each) for name, each in self._objects.items()}
        # Once more: meanwhile, an object may have become too large.
        unread |= self._unread()
        everything = self._documents(
            objects, {name for source, name in unread if source == _NAMESPACES}
        )
        for warning in wishes.unread(everything):
            progress.warn(warning)
        namespaces = objects.get(_NAMESPACES, {})
        documents = [each for each in everything if self._counts(each.value, namespaces)]
        data = objects.get(_CONFIG, {}).get((names.NAMESPACE, DATA))
        where = f"{self._host}: ConfigMap {names.NAMESPACE}/{DATA}"
        if data is None:
            raise InputError(where, "is not there: create it, with the data of the clusters")
        return Inputs(
            documents,
            decisions.with_namespaces({"placement": _parsed(where, data, progress)}, documents),
            {
                title: weights
                for name in _POLICIES
                for _, _, title, weights in filter(None, objects.get(name, {}).values())
                if weights
            },
            _titles(unread, objects),
        )

    def carried_out(self) -> Any:
        """Which of Fairlead's policies for Karmada there are, with their generations."""
        with self._changed:
            return {name: dict(self._objects.get(name, {})) for name in _POLICIES}

    def stamp(self) -> Hashable:
        """What differs when something has changed."""
        with self._changed:
            return self._version, frozenset(self._unread())

    def wait(self, seconds: float) -> None:
        """Wait until something has changed, for up to so many seconds."""
        with self._changed:
            self._changed.wait(seconds)

    def is_listed(self, sources: Iterable[Source]) -> bool:
        """Whether all sources have been listed."""
        with self._changed:
            return all(_name(source) in self._objects for source in sources)

    def _documents(
        self, objects: Mapping[str, Mapping[tuple[str, str], Any]], unread: Collection[str]
    ) -> list[Document]:
        """The namespaces, and the workloads that are not in `unread` namespaces."""
        return [
            Document(self._host, {"apiVersion": api_version, "kind": kind, **value}, None)
            for source, (api_version, kind) in (
                (_NAMESPACES, ("v1", "Namespace")),
                *_WORKLOADS.items(),
            )
            for (namespace, _), value in sorted(objects.get(source, {}).items())
            if source == _NAMESPACES or namespace not in unread
        ]

    def _counts(self, value: Mapping[str, Any], namespaces: Mapping[tuple[str, str], Any]) -> bool:
        """Whether it is a namespace, or a workload to place."""
        if not self._only_of_customers or value["kind"] == "Namespace":
            return True
        return _has_customer(value, namespaces.get(("", value["metadata"]["namespace"]), {}))

    def _unread(self) -> set[tuple[str, str]]:
        """What is too large to be read: the name of its source, and <namespace>/<name>."""
        return {(_name(watch.source), name) for watch in self.watches for name in watch.left_out}

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()


@contextmanager
def followed(
    host: Host, selector: str | None, *, applies: bool = False, progress: Progress
) -> Iterator[HostInputs]:
    """Follow the host cluster while the block runs: the workloads that the label selector matches;
    without one, those of customers. `applies` says that decisions will be carried out there. Raises
    UsageError if it cannot be read, or has no Karmada to carry them out.
    """
    inputs = HostInputs(host.name, only_of_customers=selector is None)
    labelled = {"labelSelector": selector or ""}
    followed_sources: list[tuple[Source, Mapping[str, str]]] = [
        (Source("namespaces"), {}),
        (Source("data", names.NAMESPACE), {"fieldSelector": f"metadata.name={DATA}"}),
        *((_resource(each), labelled) for each in _WORKLOADS),
        *((_resource(each), {}) for each in _POLICIES),
    ]
    stop, metrics = Event(), Metrics()
    with host.as_file() as kubeconfig:
        api = ApiRequests(kubeconfig, timeout=BRIEF)
        of_users = ApiRequests(kubeconfig, timeout=BRIEF, page=SMALL_PAGE, most=MOST)
        unserved = _require_rights(host.name, api, [source for source, _ in followed_sources])
        if without := [source for source in unserved if _name(source) in _POLICIES]:
            _tell_no_karmada(host.name, without, progress, required=applies)
        followed_sources = [each for each in followed_sources if each[0] not in without]
        following = inputs.watches = [
            Watch(
                api if source.namespace == names.NAMESPACE else of_users,
                *(source, chosen, inputs, metrics),
            )
            for source, chosen in followed_sources
        ]
        try:
            for watch in following:
                Thread(target=watch.run, args=(stop, lambda: None), daemon=True).start()
            try:
                waiting.until(
                    lambda: inputs.is_listed(source for source, _ in followed_sources),
                    deadline=_LISTED,
                    what="the host cluster is listed",
                )
            except FairleadError as error:
                problems = "; ".join(filter(None, (watch.trouble for watch in following)))
                raise UsageError(f"{host.name}: {problems or error}") from error
            yield inputs
        finally:
            stop.set()


def _require_rights(host: str, api: ApiRequests, sources: Iterable[Source]) -> list[Source]:
    """The sources whose kinds the API server does not have; it may be away for a moment. Raises
    UsageError for the first source that it does not let us list.
    """
    unserved = []
    for source in sources:
        try:
            api.call("GET", watches.path(source), query={"limit": "1"})
        except Refused as error:
            if error.status != 404:
                raise UsageError(f"{host}: {error}") from error
            unserved.append(source)
        except Unreachable:
            break
    return unserved


def _tell_no_karmada(
    host: str, without: Sequence[Source], progress: Progress, *, required: bool
) -> None:
    """Say which kinds of Karmada the host cluster lacks. Raises UsageError if they are required."""
    plurals = " and ".join(source.resource.name for source in without if source.resource)
    text = (
        f"{host} has no Karmada, so it cannot carry out decisions (it does not serve {plurals} of "
        f"{karmada.API_VERSION}): name the context of Karmada's API server by --host"
    )
    if required:
        raise UsageError(text)
    progress.warn(text)


def _resource(text: str) -> Source:
    return Source("objects", resource=resources.parse(text, namespaced=True))


def _name(source: Source) -> str:
    return _CONFIG if source.kind == "data" else str(source)


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    return value["metadata"].get("namespace") or "", value["metadata"]["name"]


def _thinned(source: Source, value: Mapping[str, Any]) -> Any:
    """What decisions read of an object. What controllers write all the time is left out."""
    if source.kind == "data":
        return {**(value.get("data") or {})}
    metadata = value["metadata"]
    if _name(source) in _POLICIES:
        if not is_ours(value):
            return None
        # Whoever changes one of ours makes it be applied again.
        where = karmada.title_of(value), karmada.weights_of(value)
        return (metadata["uid"], metadata.get("generation"), *where)
    fields = ("name", "namespace", "labels", "annotations", "ownerReferences")
    thinned = {"metadata": {key: metadata[key] for key in fields if metadata.get(key)}}
    return {**thinned, "spec": value["spec"]} if source.resource else thinned


def _titles(
    unread: Iterable[tuple[str, str]], objects: Mapping[str, Iterable[tuple[str, str]]]
) -> set[str]:
    """The workloads that are too large to be read, or whose namespace is."""
    titles = set()
    for source, name in unread:
        if source in _WORKLOADS:
            titles.add(f"{_WORKLOADS[source][1]} {name}")
        if source == _NAMESPACES:
            titles |= {
                f"{kind} {'/'.join(key)}"
                for path, (_, kind) in _WORKLOADS.items()
                for key in objects.get(path, ())
                if key[0] == name
            }
    return titles


def _has_customer(value: Mapping[str, Any], namespace: Mapping[str, Any]) -> bool:
    return any(
        "customer" in manifest_kinds.mapping(each.get("metadata", {}).get(field))
        for each in (value, namespace)
        for field in ("annotations", "labels")
    )


def _parsed(where: str, data: Mapping[str, str], progress: Progress) -> dict[str, Any]:
    """The data of the ConfigMap, whose values are JSON. Raises InputError."""
    parsed = {}
    for key, text in data.items():
        try:
            parsed[key] = json.loads(text)
        except ValueError as error:
            raise InputError(where, f"{key} is not JSON: {error}") from error
    for key in ("clusters", "customers"):
        if key not in parsed:
            has = ", ".join(sorted(parsed)) or "none"
            raise InputError(
                where, f"has no key {key}: bring it by --from-file={key}=FILE (its keys are: {has})"
            )
    document = Document(Path(where), {"placement": parsed}, None)
    data_sources.check(document, where, progress)
    return parsed

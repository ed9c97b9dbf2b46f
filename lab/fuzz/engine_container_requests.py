"""Requests about containers and labels, and settings of the intents about them, as strategies of
hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st

from fairlead.engines.python.api import get
from fairlead.engines.python.pods import TEMPLATES
from lab.fuzz import parts
from lab.fuzz.parts import Strategy, some

_DIGEST = "@sha256:" + "0" * 64
_IMAGES = (
    "nginx",
    "nginx:1.27",
    f"nginx{_DIGEST}",
    "library/nginx",
    "docker.io/library/nginx:1",
    "index.docker.io/library/nginx",
    f"registry.example.com/shop/web:1{_DIGEST}",
    "registry.example.com/shopping/web",
    "registry.example.com.evil.io/shop/web",
    "registry.example.com@evil.io/shop",
    "registry.example.com:5000/shop/web",
    "localhost/web",
    "REGISTRY.example.com/shop/web",
    " nginx",
    "",
)
_SOURCES = (
    "registry.example.com",
    "registry.example.com/shop",
    "registry.example.com:5000",
    "docker.io",
    "docker.io/library",
    "localhost",
)
_USERS = (0, 1, 999, 1000, 2147483647)
_QUANTITIES = ("0", "500m", "0.5", "1", "1Gi", "1G", "1e9", "1000Mi", "0.1Gi", "2", "100E")
_AMOUNTS = (*_QUANTITIES, 1, 0, "-1", "1.5e-3", "9223372036854775808")
_MAXIMA = ("0", "500m", "1", "1Gi", "1e9", "1P")
_RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
_KEYS = ("team", "example.com/stage")
_VALUES = ("", "a", "b", "production", "prod\n")
_INJECTED = "proxy"
_KINDS = (*TEMPLATES, "/Pod", "/Pod", "/Pod", "/Pod", "/Namespace")


def intents() -> Strategy:
    """Some of the intents, each for all namespaces or for some, with or without exemptions."""
    instances = {
        "image-sources": _instance(_images()),
        "run-as-user": _instance(_users()),
        "required-labels": _instance(_labels()),
        "resource-limits": _instance(_resources()),
        "sidecar-injection": _instance(_sidecars()),
    }
    return st.fixed_dictionaries({}, optional=instances)


def _instance(parameters: Strategy) -> Strategy:
    return st.fixed_dictionaries(
        {"parameters": parameters},
        optional={
            "namespaces": st.just({"matchLabels": {"env": "prod"}}),
            "exempt": st.sampled_from(({"users": ["alice"]}, {"groups": ["admins"]})),
        },
    )


def _unique(values: tuple[Any, ...], *, least: int = 0, most: int = 2) -> Strategy:
    return st.lists(st.sampled_from(values), min_size=least, max_size=most, unique=True)


def _images() -> Strategy:
    return st.fixed_dictionaries(
        {"sources": _unique(_SOURCES, least=1)}, optional={"require_digest": st.booleans()}
    )


def _users() -> Strategy:
    bounds = st.tuples(st.sampled_from(_USERS), st.sampled_from(_USERS)).map(sorted)
    users = st.lists(
        bounds.map(lambda pair: {"min": pair[0], "max": pair[1]}), min_size=1, max_size=2
    )
    return some(users=users, require_user=st.booleans())


def _labels() -> Strategy:
    wanted: Strategy = st.one_of(
        st.just({}),
        st.just({"values": ["a", "production"]}),
        st.just({"pattern": "prod.*"}),
        st.just({"pattern": "a|b"}),
    )
    label = st.builds(lambda key, value: {"key": key, **value}, st.sampled_from(_KEYS), wanted)
    kinds = _unique(("v1/Pod", "apps/v1/Deployment", "batch/v1/CronJob", "v1/Namespace"), least=1)
    return st.fixed_dictionaries(
        {"labels": st.lists(label, min_size=1, max_size=2, unique_by=lambda one: one["key"])},
        optional={"kinds": kinds, "templates": st.booleans()},
    )


def _resources() -> Strategy:
    maxima = st.dictionaries(st.sampled_from(_RESOURCES), st.sampled_from(_MAXIMA), max_size=2)
    part = some(required=_unique(_RESOURCES), container_max=maxima, pod_max=maxima)
    return some(requests=part, limits=part, templates=st.booleans())


def _sidecars() -> Strategy:
    container = st.fixed_dictionaries(
        {"name": st.just(_INJECTED), "image": st.sampled_from(("proxy:1", "proxy:2"))},
        optional={"args": st.just(["run"]), "volumeMounts": st.just(_MOUNTS)},
    )
    volumes = st.sampled_from(([], [{"name": "run", "emptyDir": {}}]))
    return st.builds(
        # A sidecar mounts only volumes that the pod gets with it.
        lambda sidecar, given, others: {
            **others,
            "container": sidecar,
            "volumes": [{"name": "run", "emptyDir": {}}] if "volumeMounts" in sidecar else given,
        },
        container,
        volumes,
        some(
            on_conflict=st.sampled_from(("warn", "refuse")),
            position=st.sampled_from(("first", "last")),
        ),
    )


_MOUNTS = [{"name": "run", "mountPath": "/run/proxy"}]


def labels() -> Strategy:
    """The labels of a namespace; None if there is none."""
    labelled = some(env=st.sampled_from(("prod", "test")), team=st.just("a"))
    return st.one_of(labelled, labelled, labelled, labelled, st.none())


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """Reviews of pods, their subresources, templates and namespaces."""
    kind = draw(st.sampled_from(_KINDS))
    manifest = draw(_manifests(kind))
    below = draw(st.sampled_from((None, None, "ephemeralcontainers", "resize")))
    sub_resource = below if kind == "/Pod" else None
    updated = sub_resource is not None or draw(st.booleans())
    old = draw(st.sampled_from((manifest, draw(_manifests(kind))))) if updated else None
    if updated and draw(st.booleans()):
        old = _with_other_containers(kind, manifest, draw(_specs()))
    users: tuple[Mapping[str, Any], ...] = (
        *[{"username": "eve", "groups": ["system:authenticated"]}] * 3,
        {"username": "alice"},
        {"username": "bob", "groups": ["admins"]},
        {"username": "system:node:n1", "groups": ["system:nodes"]},
    )
    review: dict[str, Any] = draw(
        parts.review(
            manifest,
            operation="UPDATE" if updated else "CREATE",
            old=old,
            user=draw(st.sampled_from(users)),
            sub_resource=sub_resource,
        )
    )
    return review


def _with_other_containers(kind: str, manifest: Any, spec: dict[str, Any]) -> Any:
    """The manifest with the containers of another one: an update of just these."""
    other = copy.deepcopy(manifest)
    own = get(other, *TEMPLATES.get(kind, ()), "spec")
    if isinstance(own, dict) and kind != "/Namespace":
        own["containers"] = spec["containers"]
    return other


def _manifests(kind: str) -> Strategy:
    named = _metadata().map(lambda metadata: {"name": "web", **metadata})
    template = st.fixed_dictionaries({"metadata": _metadata(), "spec": _specs()})
    return parts.manifests(kind, named, template)


def _metadata() -> Strategy:
    values = st.dictionaries(st.sampled_from(_KEYS), st.sampled_from(_VALUES), max_size=2)
    mirror = st.just({"kubernetes.io/config.mirror": "x"})
    return some(labels=values, annotations=mirror)


def _specs() -> Strategy:
    containers = st.lists(_containers(), max_size=2)
    volumes = st.lists(
        st.sampled_from(
            (
                {"name": "run", "emptyDir": {}},
                {"name": "run", "configMap": {"name": "run"}},
                {"name": "code", "image": {"reference": "evil.io/code:1"}},
                {"name": "code", "image": {"reference": "registry.example.com/shop/code"}},
                {"name": "code", "image": {}},
            )
        ),
        max_size=2,
        unique_by=lambda volume: str(volume["name"]),
    )
    return st.fixed_dictionaries(
        {"containers": st.lists(_containers(), min_size=1, max_size=2)},
        optional={
            "initContainers": containers,
            "ephemeralContainers": containers,
            "securityContext": _security(),
            "resources": _amounts(),
            "overhead": st.just({"cpu": "100m", "memory": "1Mi"}),
            "volumes": volumes,
            "os": st.sampled_from(({"name": "linux"}, {"name": "windows"})),
            "nodeName": st.sampled_from(("", "n1")),
        },
    )


def _containers() -> Strategy:
    return st.fixed_dictionaries(
        {"name": st.sampled_from(("a", "b", _INJECTED))},
        optional={
            "image": st.sampled_from((*_IMAGES, "proxy:1")),
            "args": st.just(["run"]),
            "resources": _amounts(),
            "restartPolicy": st.just("Always"),
            "securityContext": _security(),
            "volumeMounts": st.just(_MOUNTS),
        },
    )


def _security() -> Strategy:
    return some(runAsUser=st.sampled_from(_USERS), runAsNonRoot=st.booleans())


def _amounts() -> Strategy:
    amounts = st.dictionaries(st.sampled_from(_RESOURCES), st.sampled_from(_AMOUNTS), max_size=2)
    return some(requests=amounts, limits=amounts)

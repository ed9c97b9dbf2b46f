"""Requests about node pools, and settings of them, as strategies of hypothesis."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st

from fairlead.admission.decisions import NOTE
from fairlead.engines.python.api import get
from fairlead.engines.python.pods import TEMPLATES
from lab.fuzz import engine_replica_requests, parts
from lab.fuzz.parts import Strategy, some

_KEYS = ("agentpool", "zone", "disk")
_VALUES = ("pool1", "pool2", "a", "b")
_NAMES = ("pool1", "pool2", "pool9")
_PLACED = ("/Pod", "apps/DaemonSet")
_KINDS = (*TEMPLATES, *_PLACED, *_PLACED, "/Namespace")


def _selectors(keys: tuple[str, ...] = _KEYS) -> Strategy:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(_VALUES), max_size=2)


def _tolerations(*, legal: bool = False) -> Strategy:
    """Lists of tolerations; `legal` ones are such as settings may name."""
    keys = ("gpu", "spot", "node.kubernetes.io/not-ready", "node.kubernetes.io/disk-pressure")
    equal = st.fixed_dictionaries(
        {"key": st.sampled_from(keys), "operator": st.just("Equal")},
        optional={"value": st.sampled_from(("", "1", "2"))},
    )
    exists = st.fixed_dictionaries(
        {"operator": st.just("Exists")}, optional={"key": st.sampled_from(keys)}
    )
    odd = some(
        key=st.sampled_from((*keys, "")),
        operator=st.sampled_from(("Exists", "Equal", "Lt", "Gt", "")),
        value=st.sampled_from(("", "1", "2")),
    )
    further = some(
        effect=st.sampled_from(("NoSchedule", "NoExecute")),
        tolerationSeconds=st.sampled_from((0, 60, 300, 301)),
    )
    kinds = st.one_of(equal, exists) if legal else st.one_of(equal, exists, odd)
    return st.lists(st.builds(lambda one, two: one | two, kinds, further), max_size=3)


def _given(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tolerations as a pool can give them: those with an end tolerate what ends pods."""
    timed = {"effect": "NoExecute"}
    return [{**t, **(timed if "tolerationSeconds" in t else {})} for t in tolerations]


def settings() -> Strategy:
    """Settings in the form of the file."""
    rejecting = {
        "nodeSelector": _selectors(),
        "tolerations": _tolerations(legal=True).map(_given),
        "allowedTolerations": st.none() | _tolerations(legal=True),
    }
    choices = st.dictionaries(
        st.sampled_from(_KEYS), st.lists(st.sampled_from(_VALUES), max_size=2), max_size=2
    )
    merging = {**rejecting, "allowedNodeSelector": st.none() | choices}
    exempt = some(
        users=st.just(["alice"]),
        groups=st.just(["admins"]),
        namespaces=st.just(["payments"]),
    )
    common: dict[str, Strategy] = {
        "contact": st.sampled_from(("#platform", 'say "hello"')),
        "nodeLabel": st.sampled_from(("agentpool", "disk")),
        "namespaceLabel": st.sampled_from(("agentpool", "agentpool", "agentpool", "team/pool")),
        "enforcement": st.sampled_from(("deny", "deny", "warn")),
        "intents": st.builds(
            lambda chosen, others: {"node-pool": {"exempt": chosen}, **others},
            exempt,
            engine_replica_requests.intents(),
        ),
        "defaultPool": st.just("pool1"),
    }
    declared = {"pools": _pools(st.fixed_dictionaries(rejecting))}
    merged = {
        "pools": _pools(st.fixed_dictionaries(merging)),
        "podSelector": st.just("merge"),
    }
    return st.one_of(
        st.fixed_dictionaries(declared, optional=common),
        st.fixed_dictionaries(merged, optional=common),
        st.fixed_dictionaries({}, optional=common),
    )


def _pools(pool: Strategy) -> Strategy:
    """Some pools; the default pool is always there."""
    others = st.dictionaries(st.sampled_from(_NAMES[1:]), pool, max_size=2)
    return st.builds(lambda first, rest: {"pool1": first, **rest}, pool, others)


def labels() -> Strategy:
    """The labels of a namespace; None if there is none."""
    pools = st.sampled_from(("pool1", "pool1", "pool2", "pool9", ""))
    further = {"team/pool": pools, "env": st.sampled_from(("prod", "test"))}
    mapped = st.fixed_dictionaries({"agentpool": pools}, optional=further)
    return st.one_of(mapped, mapped, mapped, mapped, st.just({}), st.none())


@st.composite
def reviews(draw: st.DrawFn) -> dict[str, Any]:
    """Reviews of pods, templates and namespaces that are created or updated."""
    kind = draw(st.sampled_from(_KINDS))
    manifest = draw(_manifests(kind))
    old = None
    if draw(st.booleans()):
        other = draw(_manifests(kind))
        old = draw(st.sampled_from((manifest, other, _mixed(kind, manifest, other))))
    user: Mapping[str, Any] = draw(
        st.sampled_from(
            (
                *[{"username": "eve", "groups": ["system:authenticated"]}] * 4,
                {"username": "alice", "groups": []},
                {"username": "bob", "groups": ["admins"]},
                {"username": "system:node:n1", "groups": ["system:nodes"]},
                {"username": "system:serviceaccount:kube-system:daemon-set-controller"},
            )
        )
    )
    review: dict[str, Any] = draw(
        parts.review(manifest, operation="CREATE" if old is None else "UPDATE", old=old, user=user)
    )
    return review


def _mixed(kind: str, manifest: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the nodeSelector of the other one: an update that changes little."""
    mixed: dict[str, Any] = json.loads(json.dumps(manifest))
    path = (*TEMPLATES.get(kind, ()), "spec")
    spec, selector = get(mixed, *path), get(other, *path, "nodeSelector")
    if isinstance(spec, dict):
        spec["nodeSelector"] = selector
    return mixed


def _manifests(kind: str) -> Strategy:
    metadata = _metadata()
    if kind == "/Namespace":
        given = labels().map(lambda chosen: chosen or {})
        metadata = st.fixed_dictionaries({"name": st.just("payments"), "labels": given})
    template = st.fixed_dictionaries({"metadata": _metadata(), "spec": _specs()})
    return parts.manifests(kind, metadata, template)


def _metadata() -> Strategy:
    owners = st.lists(
        some(
            kind=st.sampled_from(("DaemonSet", "Deployment")),
            name=st.just("agent"),
            controller=st.booleans(),
        ).map(lambda owner: {"kind": "DaemonSet", "name": "agent", **owner}),
        max_size=2,
    )
    note = st.one_of(
        some(nodeSelector=_selectors(), tolerations=_tolerations()).map(json.dumps),
        st.sampled_from(("", "{", "null", "[]", "7", '{"nodeSelector":null}')),
    )
    annotations = some(
        **{NOTE: note, "kubernetes.io/config.mirror": st.just("x"), "other": st.just("x")}
    )
    named = st.sampled_from(({"name": "web"}, {"generateName": "web-"}, {"name": 'a"b'}, {}))
    further = some(annotations=annotations, ownerReferences=owners)
    return st.builds(lambda one, two: one | two, named, further)


def _specs() -> Strategy:
    usual = st.sampled_from((None, {}, {}, {"agentpool": "pool1"}))
    return st.fixed_dictionaries(
        {
            "nodeSelector": st.one_of(usual, _selectors()),
            "tolerations": st.one_of(st.none(), _tolerations(), _tolerations()),
            "nodeName": st.sampled_from(("", "", "", "n1")),
        },
        optional={"schedulingGates": st.sampled_from(([], [{"name": "wait"}]))},
    )

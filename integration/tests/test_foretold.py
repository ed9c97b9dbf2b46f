"""What `fairlead audit` and `fairlead diff` foretell of settings is what an API server does once
these are deployed: for the objects of all conformance cases, which were there before."""

from __future__ import annotations

import copy
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest
from profiles import SETTINGS
from waits import until

from fairlead.admission import audit, diff
from fairlead.admission.inventory import Inventory, Subject, further_kinds
from fairlead.clusters.embedded.cluster import EmbeddedCluster
from fairlead.common.progress import Progress
from fairlead.kube import clients, stored_fields
from fairlead.kube.api_paths import path_of
from fairlead.kube.api_requests import ApiRequests
from fairlead.kube.responses import Response
from fairlead.operations.deploy import deploy
from fairlead.policy import cases
from fairlead.policy.cases import Case
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Pool, Settings, Toleration
from fairlead.verification.comparison import without_note
from lab.engines.live.webhook_marker import WebhookMarker

pytestmark = pytest.mark.embedded("it has a cluster of its own without workloads")

QUIET = Progress()
Key = tuple[str, str, str]
AGAIN = "-again"
"""What the name of an object ends with when it is sent again, so that none is there already."""
NO_DATA = "federated-placement"
"""The intent that decides by data, which neither audit nor diff reads."""
MADE_BY_SERVER = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")


@dataclass(frozen=True)
class Outcome:
    """What an API server makes of the requests for one object and its pods: whether any is refused,
    and if none is, the objects and the warnings that come of them.

    It is `invalid` if nothing but Kubernetes' own validation refuses what the policies made of it,
    such as an injected container with fields that are only for Linux in a pod for Windows. Neither
    audit nor diff knows that validation: they tell what the policies do.
    """

    refused: bool
    objects: tuple[str, ...] = ()
    warnings: tuple[tuple[str, ...], ...] = ()
    invalid: bool = False


@dataclass(frozen=True)
class World:
    """A cluster whose objects are older than all policies. `plain` is what became of each object
    that was sent again before there were policies; the API server took all of these.
    """

    cluster: EmbeddedCluster
    subjects: Mapping[Key, Subject]
    plain: Mapping[Key, Outcome]


def every_case() -> list[Case]:
    return [case for case in cases.load(None) if case.intent != NO_DATA]


def enforced(case: Case) -> Settings:
    """The settings of a case, in force, with the images of this run."""
    return case.settings.enforced().model_copy(update={"images": SETTINGS.images})


def distinct(chosen: Iterable[Case]) -> list[Settings]:
    """The settings of these cases, each once. Those of one intent are not neighbours, as far as
    there are others: the webhooks of an intent that is deployed already stay those that they are.
    """
    by_intent: dict[str, dict[str, Settings]] = {}
    for case in chosen:
        settings = enforced(case)
        by_intent.setdefault(case.intent, {})[settings.model_dump_json()] = settings
    queues = [list(each.values()) for each in by_intent.values()]
    rounds = range(max(map(len, queues)))
    return [queue[number] for number in rounds for queue in queues if number < len(queue)]


def few(every: Sequence[Case]) -> list[Case]:
    """A case of each intent that is refused, and one of node-pool with declared pools."""
    refused: dict[str, Case] = {}
    for case in every:
        if case.request.operation == "CREATE" and not case.expect.allowed:
            refused.setdefault(case.intent, case)
    changed = [case for case in every if case.intent == "sidecar-injection" and case.expect.object]
    pools = [case for case in every if case.settings.pools and case.settings.default_pool is None]
    return [*refused.values(), *changed[:1], *pools[:1]]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with EmbeddedCluster(f"foretold-{os.getpid()}") as cluster:
        cluster.start_control_plane(workloads=False, progress=QUIET)
        api = cluster.objects()
        every = every_case()
        for number, case in enumerate(every):
            store(api, case, f"case-{number}")
        policies = [PolicySet.load(settings) for settings in distinct(every)]
        kinds = further_kinds(instance for each in policies for instance in each.active)
        inventory = Inventory(ApiRequests(cluster.kubeconfig), QUIET, kinds)
        subjects = {key(each): each for each in inventory.subjects}
        plain = {at: outcome(api, each) for at, each in subjects.items()}
        accepted = {
            at: each
            for at, each in subjects.items()
            if not (plain[at].refused or plain[at].invalid)
        }
        assert len(accepted) > 200
        yield World(cluster, accepted, plain)


def key(subject: Subject) -> Key:
    return subject.namespace, subject.kind, subject.name


def store(api: clients.Objects, case: Case, namespace: str) -> None:
    """Create the object that a case creates, in a namespace of its own."""
    manifest = copy.deepcopy(case.request.object)
    is_new = case.request.operation == "CREATE" and not case.request.sub_resource
    if not is_new or not manifest or not manifest.get("metadata") or not api.serves(manifest):
        return
    labels = case.namespace.labels if case.namespace else {}
    api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    )
    manifest["metadata"].pop("namespace", None)
    if manifest["kind"] == "Namespace":
        manifest["metadata"]["name"] = f"{namespace}-of-its-own"
    api.request("POST", path_of(manifest, namespace), manifest)  # some are refused by any server


def outcome(api: clients.Objects, subject: Subject) -> Outcome:
    """What the API server makes of an object and its pods if they are sent again."""
    answers = [sent(api, subject, review["request"]["object"]) for review in subject.reviews]
    if failed := [answer for answer in answers if not answer.ok]:
        invalid = all(answer.status == HTTPStatus.UNPROCESSABLE_ENTITY for answer in failed)
        return Outcome(refused=not invalid, invalid=invalid)
    return Outcome(
        False,
        tuple(json.dumps(without_server(answer.body), sort_keys=True) for answer in answers),
        tuple(tuple(sorted(answer.warnings)) for answer in answers),
    )


def sent(api: clients.Objects, subject: Subject, manifest: Mapping[str, Any]) -> Response:
    again = copy.deepcopy(stored_fields.written_again(manifest))
    if again["metadata"].get("name"):
        again["metadata"]["name"] += AGAIN
    for owner in again["metadata"].get("ownerReferences") or ():
        owner.setdefault("uid", "1")
    path = path_of(again, subject.namespace or None)
    return api.request("POST", path, again, query={"dryRun": "All"})


def without_server(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what is new in each answer, such as a generated name, and without the note
    of a new pod, which neither audit nor diff shows.
    """
    body = without_note(body)
    metadata = {k: v for k, v in body["metadata"].items() if k not in MADE_BY_SERVER}
    if metadata.get("generateName"):
        metadata.pop("name", None)
    if body["kind"] == "Job":  # its labels and its selector are made of its uid
        return {"kind": "Job", "spec": body["spec"]["template"]["spec"]}
    return {**{k: v for k, v in body.items() if k != "status"}, "metadata": metadata}


def audited(world: World, policies: PolicySet) -> dict[Key, str]:
    """The findings. One of a workload that would change, and of whose pods OPA is not asked, counts
    as not asked.
    """
    report = audit.audit(world.cluster, policies, progress=QUIET)
    return {
        (f["namespace"], f["kind"], f["name"]): audit.NOT_ASKED
        if f"; {audit.NOT_ASKED}: " in f["message"]
        else f["finding"]
        for f in report["findings"]
    }


def compared(world: World, policies: PolicySet) -> dict[Key, str]:
    report = diff.diff(world.cluster, policies, revision="new", progress=QUIET)
    return {(d["namespace"], d["kind"], d["name"]): d["difference"] for d in report["differences"]}


def said_by_audit(plain: Outcome, now: Outcome) -> set[str | None]:
    """The findings that are right."""
    if now.refused:
        return {audit.REFUSED}
    if now.invalid:  # as the object was valid, a policy changed it
        return {audit.CHANGED}
    if now.objects != plain.objects:
        return {audit.CHANGED}
    return {audit.PLACED, None}


def said_by_diff(before: Outcome, now: Outcome) -> set[str | None]:
    """The differences that are right."""
    if before.refused and now.refused:
        return {diff.TOLD, None}  # the outcomes do not have the words
    if before.refused or now.refused:
        return {diff.REFUSED if now.refused else diff.ADMITTED}
    if before.invalid != now.invalid:
        return {diff.PATCHED}
    if before.invalid:
        return {diff.PATCHED, diff.TOLD, None}  # the outcomes have neither objects nor words
    if before.objects != now.objects:
        return {diff.PATCHED}
    return {diff.TOLD if before.warnings != now.warnings else None}


def wrong(
    said: Mapping[Key, str],
    right: Mapping[Key, set[str | None]],
    *outcomes: Mapping[Key, Outcome],
) -> list[str]:
    return [
        f"{at}: {said.get(at)}, but right is {right[at]}: {[each[at] for each in outcomes]}"
        for at in right
        if said.get(at) not in right[at]
    ]


def not_asked_today(policies: PolicySet, deployed: PolicySet | None) -> set[str | None]:
    """What an audit may say besides: the webhooks of an intent that is deployed count as they are,
    though these policies bring others.
    """
    requests = {each.name: each.requests for each in deployed.active} if deployed else {}
    others = [
        each for each in policies.active if requests.get(each.name, each.requests) != each.requests
    ]
    return {audit.NOT_ASKED} if others else set()


def check(world: World, all_settings: Iterable[Settings]) -> set[str]:
    """Compare what is said with what is done, for each of the settings after the others. Returns
    all that was said.
    """
    heard = set[str]()
    errors: list[tuple[dict[str, Any], list[str]]] = []
    before: Mapping[Key, Outcome] | None = None
    deployed: PolicySet | None = None
    for settings in all_settings:
        policies = PolicySet.load(settings)
        findings = audited(world, policies)
        differences = compared(world, policies) if before else {}
        now = happens(world, policies)
        besides = not_asked_today(policies, deployed)
        right = {at: said_by_audit(world.plain[at], now[at]) | besides for at in now}
        of_these = wrong(findings, right, world.plain, now)
        if before:
            changes = {at: said_by_diff(before[at], now[at]) for at in now}
            of_these += wrong(differences, changes, before, now)
        if of_these:
            errors.append((settings.deployed_document(), of_these))
        heard |= {*findings.values(), *differences.values()}
        before, deployed = now, policies
    assert errors == []
    return heard


def happens(world: World, policies: PolicySet) -> dict[Key, Outcome]:
    """Deploy the policies: what becomes of each object then."""
    api = world.cluster.objects()
    deploy(world.cluster, policies, tested=True, progress=QUIET)
    with WebhookMarker(api).placed():
        return {at: outcome(api, subject) for at, subject in world.subjects.items()}


def test_what_is_foretold_of_each_intent_is_what_then_happens(world: World) -> None:
    heard = check(world, distinct(few(every_case())))
    assert heard >= {audit.REFUSED, audit.CHANGED, diff.REFUSED, diff.ADMITTED, diff.PATCHED}


@pytest.mark.lab
def test_what_is_foretold_of_all_settings_is_what_then_happens(world: World) -> None:
    assert len(distinct(every_case())) >= 60
    check(world, distinct(every_case()))


def test_a_pod_that_fairlead_placed_is_not_blamed_after_its_namespace_moved(world: World) -> None:
    """By the fields that a real API server records."""
    api = world.cluster.objects()
    policies = PolicySet.load(replace_images(Settings()))
    deploy(world.cluster, policies, tested=True, progress=QUIET)

    label(api, "pool1")
    own = {"nodeSelector": {"agentpool": "pool1"}}
    for manifest in (moved_pod("placed"), moved_pod("own", **own)):
        until(functools.partial(created, api, manifest), what="OPA knows the namespace")
    stored = api.get("v1", "Pod", "placed", "moved") or {}
    assert stored["spec"]["nodeSelector"] == {"agentpool": "pool1"}
    assert {at[2] for at, f in of_moved(world, policies).items() if f[0] == audit.PLACED} == {
        "placed",
        "own",
    }
    label(api, "pool2")
    findings = {at[2]: found for at, found in of_moved(world, policies).items()}
    assert findings["placed"] == (
        audit.CHANGED,
        'add /spec/nodeSelector {"agentpool": "pool2"}; an earlier pool placed it: delete it, and '
        "create it again",
    )
    assert findings["own"][0] == audit.REFUSED
    assert 'pod "own" sets spec.nodeSelector agentpool=pool1' in findings["own"][1]


def test_what_pools_of_past_deployments_gave_is_not_blamed_on_its_author(world: World) -> None:
    """Neither the deployed settings nor those to come know the pool that placed the objects."""
    api = world.cluster.objects()
    spot = Toleration(key="spot", operator="Exists")
    gpu = Pool(node_selector={"hardware": "gpu"}, tolerations=[spot])
    for pools in ({"gpu": gpu}, {"cheap": Pool()}, {"cheap": Pool(), "other": Pool()}):
        settings = replace_images(Settings(pools=pools))
        deploy(world.cluster, PolicySet.load(settings), tested=True, progress=QUIET)
        if "gpu" in pools:
            label(api, "gpu")
            own = moved_pod("its-own", nodeSelector={"hardware": "gpu"})
            for manifest in (moved_pod("past"), own, moved_daemon_set("past")):
                until(functools.partial(created, api, manifest), what="OPA knows the namespace")
            label(api, "cheap")
    stored = api.get("v1", "Pod", "past", "moved") or {}
    assert stored["spec"]["nodeSelector"] == {"hardware": "gpu"}

    findings = of_moved(world, PolicySet.load(settings))
    assert findings["moved", "Pod", "past"] == (
        audit.CHANGED,
        'add /spec/nodeSelector {"agentpool": "cheap"}; an earlier pool placed it: delete it, and '
        "create it again",
    )
    assert findings["moved", "Pod", "its-own"][0] == audit.REFUSED
    finding, message = findings["moved", "DaemonSet", "past"]
    assert finding == audit.REFUSED
    assert "an earlier pool gave it to DaemonSet" in message

    merged = settings.model_copy(update={"pod_selector": "merge"})
    differences = compared(world, PolicySet.load(merged))
    assert differences["moved", "Pod", "its-own"] == diff.ADMITTED
    assert ("moved", "Pod", "past") not in differences
    elsewhere = settings.model_copy(update={"node_label": "example.com/pool"})
    differences = compared(world, PolicySet.load(elsewhere))
    assert differences["moved", "Pod", "past"] == diff.PATCHED


def label(api: clients.Objects, pool: str) -> None:
    metadata = {"name": "moved", "labels": {"agentpool": pool}}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def moved_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "moved"},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def moved_daemon_set(name: str) -> dict[str, Any]:
    pod = moved_pod(name)
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": pod["metadata"], "spec": spec}


def created(api: clients.Objects, manifest: Mapping[str, Any]) -> bool:
    return api.request("POST", path_of(manifest, "moved"), dict(manifest)).ok


def of_moved(world: World, policies: PolicySet) -> dict[Key, tuple[str, str]]:
    report = audit.audit(world.cluster, policies, progress=QUIET)
    return {
        (f["namespace"], f["kind"], f["name"]): (f["finding"], f["message"])
        for f in report["findings"]
        if f["namespace"] == "moved"
    }


def replace_images(settings: Settings) -> Settings:
    return settings.model_copy(update={"images": SETTINGS.images})

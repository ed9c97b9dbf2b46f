"""A push brings exactly the tested policies into force, or changes nothing."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kubernetes import dynamic
from policy_copies import copied
from waits import until

from fairlead.clusters.base import Cluster
from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.names import NAMESPACE, POLICIES, REVISION_ANNOTATION, STATUS
from fairlead.kube import clients
from fairlead.kube.errors import Refused
from fairlead.opa.api import OpaApi
from fairlead.operations import history, policy_status, revision_wait
from fairlead.operations.push import push
from fairlead.operations.rollback import rollback
from fairlead.policy import bundles, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

PROFILES = ["default", "kube-mgmt"]  # kube-mgmt never removes a file by itself
QUIET = Progress()
OURS = f"{NAMESPACE}/{POLICIES}/"


@pytest.fixture
def policies(tmp_path: Path, cluster: Cluster, settings: Settings) -> Iterator[Path]:
    """A copy of the policies to change. Afterwards the checkout's own are in force again."""
    yield copied(tmp_path / "policies")
    push(cluster, PolicySet.load(settings), progress=QUIET)


def modules(opa: OpaApi) -> dict[str, str]:
    return {
        id_.removeprefix(OURS): text for id_, text in opa.policies().items() if id_.startswith(OURS)
    }


def deployed(objects: clients.Objects) -> dict[str, Any]:
    config_map = objects.get("v1", "ConfigMap", POLICIES, NAMESPACE)
    assert config_map is not None
    return config_map


def test_a_pushed_policy_is_in_force_when_push_returns(
    cluster: Cluster,
    settings: Settings,
    objects: clients.Objects,
    opa: OpaApi,
    policies: Path,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
) -> None:
    for module in policies.rglob("*.rego"):
        module.write_text(
            module.read_text().replace("remove spec.nodeName", "ask the platform team")
        )
    result = push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    assert bundles.revision(modules(opa)) == result["revision"] != result["previous"]
    assert {state["url"] for state in result["opa"]} == {server.url for server in cluster.opas()}
    assert {state["revision"] for state in result["opa"]} == {result["revision"]}
    assert deployed(objects)["metadata"]["annotations"][REVISION_ANNOTATION] == result["revision"]
    with pytest.raises(Refused, match="ask the platform team"):
        objects.create(pod(namespace(agentpool="pool1"), nodeName="pool1-0"))


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("main.rego", "package system\nmain := {\n", r"main\.rego:\d+: rego_parse_error"),
        ("extra.rego", "package extra\nx := y\n", r"extra\.rego:2: rego_unsafe_var_error"),
        ("extra.rego", "package extra\nx if input.request.objct.spec\n", r"extra\.rego:2"),
        ("extra_test.rego", "package extra_test\ntest_no if 1 == 2\n", r"test_no"),
    ],
    ids=["half-written", "unsafe", "misspelt field", "failing test"],
)
def test_what_does_not_compile_or_fails_its_tests_changes_nothing(
    cluster: Cluster,
    settings: Settings,
    objects: clients.Objects,
    opa: OpaApi,
    policies: Path,
    file: str,
    text: str,
    reason: str,
) -> None:
    if "objct" in text:
        text = "# METADATA\n# schemas:\n#   - input: schema.admission_review\n" + text
        reason = r"extra\.rego:5"
    (policies / file).write_text(text)
    before, served = deployed(objects)["data"], modules(opa)
    with pytest.raises(FairleadError, match=reason):
        push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    assert deployed(objects)["data"] == before
    assert bundles.revision(modules(opa)) == bundles.revision(served)


def test_what_opa_does_not_take_is_taken_back(
    cluster: Cluster, settings: Settings, objects: clients.Objects, opa: OpaApi, policies: Path
) -> None:
    """The policy compiles and passes its tests, but a document exists at the path of its rule."""
    before, served = deployed(objects)["data"], modules(opa)
    (policies / "extra.rego").write_text("package system.extra\n\ntaken := true\n")
    opa.put_document(["system", "extra"], {"taken": 1})
    try:
        with pytest.raises(FairleadError, match="was put back and is in force"):
            push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    finally:
        opa.remove_document(["system", "extra"])
    assert deployed(objects)["data"] == before
    assert bundles.revision(modules(opa)) == bundles.revision(served)
    until(lambda: modules(opa) == served, what="nothing of it is left")
    assert opa.ready()


def test_a_package_that_is_opas_own_is_not_pushed(
    cluster: Cluster, settings: Settings, objects: clients.Objects, policies: Path
) -> None:
    before = deployed(objects)["data"]
    (policies / "extra.rego").write_text("package system.authz\n\nallow := true\n")
    with pytest.raises(
        UsageError, match=r"extra\.rego:1: .* package system\.authz, which is OPA's own"
    ):
        push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    assert deployed(objects)["data"] == before


def test_a_revision_that_was_kept_with_a_package_of_opas_own_is_not_brought_back(
    cluster: Cluster, objects: clients.Objects
) -> None:
    before = deployed(objects)["data"]
    broken = {**before, "extra.rego": "package system.log\n\ndrop := false\n"}
    manifest = manifests.policies_of(broken, {REVISION_ANNOTATION: bundles.revision(broken)})
    history.record(objects, manifest, "push")
    try:
        with pytest.raises(
            UsageError, match=r"extra\.rego:1: .* package system\.log, which is OPA's own"
        ):
            rollback(cluster, bundles.revision(broken), progress=QUIET)
    finally:
        objects.delete("v1", "ConfigMap", f"{POLICIES}-{bundles.revision(broken)}", NAMESPACE)
    assert deployed(objects)["data"] == before


def each(cluster: Cluster, token: str) -> list[dict[str, str]]:
    """Our modules that each OPA serves."""
    return [modules(OpaApi(server.url, ca=server.ca, token=token)) for server in cluster.opas()]


def test_what_a_revision_does_not_have_is_removed_from_every_opa(
    cluster: Cluster, settings: Settings, objects: clients.Objects, policies: Path, token: str
) -> None:
    (policies / "extra.rego").write_text("package system.extra\n\nx := 1\n")
    (policies / "helper.rego").write_text("package helper\n\none(n) := n\n")
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    assert all("extra.rego" in served for served in each(cluster, token))
    for name in ("extra.rego", "helper.rego"):
        (policies / name).unlink()
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    keys = deployed(objects)["data"].keys()
    until(
        lambda: all(served.keys() == keys for served in each(cluster, token)),
        what="the rest is removed",
    )


def test_a_file_of_the_package_system_may_be_renamed(
    cluster: Cluster, settings: Settings, objects: clients.Objects, policies: Path, token: str
) -> None:
    """OPA accepts no second default of a rule, so the old file must be removed before the new one
    is loaded.
    """
    (policies / "extra.rego").write_text("package system.extra\n\ndefault x := 1\n")
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    (policies / "extra.rego").rename(policies / "other.rego")
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    keys = deployed(objects)["data"].keys()
    until(
        lambda: all(served.keys() == keys for served in each(cluster, token)),
        what="the rest is removed",
    )


def test_what_other_policies_hold_on_to_is_told_with_the_way_out_which_works(
    cluster: Cluster, settings: Settings, objects: clients.Objects, policies: Path, token: str
) -> None:
    (policies / "extra.rego").write_text("package system.extra\n\none(n) := n\n")
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    (policies / "extra.rego").unlink()
    metadata = {
        "name": "user",
        "namespace": NAMESPACE,
        "labels": {"openpolicyagent.org/policy": "rego"},
    }
    text = "package user\n\nx := data.system.extra.one(1)\n"
    objects.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"user.rego": text}}
    )
    try:
        until(
            lambda: all(
                OpaApi(o.url, ca=o.ca, token=token).document(["user", "x"]) == 1
                for o in cluster.opas()
            ),
            what="the other policy is loaded",
        )
        with pytest.raises(
            FairleadError,
            match=r"still has extra\.rego .*`fairlead push --restart` restarts every OPA",
        ):
            push(cluster, PolicySet.load(settings, policies), progress=QUIET)
        push(cluster, PolicySet.load(settings, policies), restart=True, progress=QUIET)
    finally:
        objects.delete("v1", "ConfigMap", "user", NAMESPACE)
    assert all("extra.rego" not in served for served in each(cluster, token))


def test_a_kube_mgmt_whose_opa_has_ended_does_not_stop_a_push(
    cluster: Cluster, objects: clients.Objects, token: str
) -> None:
    """All kube-mgmts write the same annotation, also those of pods that are ending."""
    dial = {"Op": "dial", "Net": "tcp", "Err": {"Syscall": "connect", "Err": 111}}
    error = {"Op": "Put", "URL": "https://127.0.0.1:8181/v1/policies/main.rego", "Err": dial}
    annotations = {STATUS: json.dumps({"status": "error", "error": [error, error]})}
    metadata = {"name": POLICIES, "namespace": NAMESPACE}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    modules = {**deployed(objects)["data"], "other.rego": "package other\n"}
    objects.merge(config_map, {"metadata": {"annotations": annotations}})
    with pytest.raises(
        FairleadError, match="this did not happen within 1 s: every OPA serves"
    ) as waited:  # it goes on to wait
        revision_wait.until_in_force(cluster, objects, token, modules, deadline=1, progress=QUIET)
    assert not isinstance(waited.value, revision_wait.RevisionRejected)
    until(lambda: policy_status.policies(objects)[0]["status"] == "ok", what="the status is ok")


def tagged(policies: Path, tag: str) -> None:
    """Makes two modules add `tag` to the end of their part of a refusal."""
    for file, words in (
        ("main.rego", "Forbidden"),
        ("node_pool/node_pool.rego", "remove spec.nodeName"),
    ):
        module = policies / file
        module.write_text(re.sub(rf'{words}( \(\w\))?"', f'{words} ({tag})"', module.read_text()))


def test_no_answer_is_a_mix_of_two_revisions_and_none_is_missing(
    cluster: Cluster,
    settings: Settings,
    anonymous: OpaApi,
    policies: Path,
    namespace: Callable[..., str],
) -> None:
    at = namespace(agentpool="pool1")
    for test in policies.rglob("*_test.rego"):
        test.unlink()
    (policies / "some_test.rego").write_text("package some_test\n\ntest_yes if true\n")
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "namespace": at,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "object": {"metadata": {"name": "web"}, "spec": {"nodeName": "x"}},
        },
    }
    tagged(policies, "a")
    push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    answers: set[tuple[str, str]] = set()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            status = anonymous.decide(review)["response"]["status"]
            answers.add((status["reason"], status["message"].rpartition(" ")[2]))

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            for tag in "babab":
                tagged(policies, tag)
                push(cluster, PolicySet.load(settings, policies), progress=QUIET)
        finally:
            stop.set()
        asking.result()
    assert answers == {("Forbidden (a)", "(a)"), ("Forbidden (b)", "(b)")}


def test_a_revision_that_was_in_force_can_be_brought_back(
    cluster: Cluster, settings: Settings, objects: clients.Objects, opa: OpaApi, policies: Path
) -> None:
    first = push(cluster, PolicySet.load(settings, policies), progress=QUIET)["revision"]
    merging = settings.model_copy(update={"pod_selector": "merge"})
    second = push(cluster, PolicySet.load(merging, policies), progress=QUIET)["revision"]
    assert [line["revision"] for line in history.table(cluster)][:2] == [second, first]
    assert rollback(cluster, None, progress=QUIET)["revision"] == first
    assert bundles.revision(modules(opa)) == first
    assert [line["current"] for line in history.table(cluster)][:3] == [True, False, False]
    assert rollback(cluster, second[:6], progress=QUIET)["revision"] == second
    with pytest.raises(
        UsageError, match=f"'zzz' is neither .* one revision .*: there are .*{first}"
    ):
        rollback(cluster, "zzz", progress=QUIET)


def test_a_hand_broken_config_map_is_put_right_by_a_push(
    cluster: Cluster, settings: Settings, objects: clients.Objects, opa: OpaApi, policies: Path
) -> None:
    config_map = deployed(objects)
    (staged,) = [key for key in config_map["data"] if key.endswith(".node_pool.node_pool.rego")]
    data = {
        **config_map["data"],
        staged: "package broken\n\nx := {",
        "added.rego": "package added\n\nx := 1\n",
    }
    # Whatever version it has by now: the sidecar may be writing its status at this moment.
    metadata = {
        key: value for key, value in config_map["metadata"].items() if key != "resourceVersion"
    }
    api = dynamic.DynamicClient(clients.connect(cluster.kubeconfig))
    api.resources.get(api_version="v1", kind="ConfigMap").replace(
        body={**config_map, "metadata": metadata, "data": data},
        name=POLICIES,
        namespace=NAMESPACE,
        field_manager="kubectl-edit",
    )
    result = push(cluster, PolicySet.load(settings, policies), progress=QUIET)
    assert bundles.revision(modules(opa)) == result["revision"]
    assert "added.rego" not in deployed(objects)["data"]
    until(lambda: policy_status.policies(objects)[0]["status"] == "ok", what="the status is ok")


def test_a_wait_goes_on_with_the_token_that_came_meanwhile(
    cluster: Cluster, objects: clients.Objects
) -> None:
    states = revision_wait.until_in_force(
        cluster, objects, "rotated-away", deployed(objects)["data"], progress=QUIET
    )
    assert {state.ready for state in states} == {True}


def test_settings_that_take_a_deployment_are_not_half_pushed(
    cluster: Cluster, settings: Settings, objects: clients.Objects
) -> None:
    before = deployed(objects)["data"]
    # The webhooks and the sidecar know of both.
    for field, value, named in (
        ("namespace_label", "pool", "namespaceLabel"),
        ("default_pool", "pool1", "defaultPool"),
    ):
        with pytest.raises(UsageError, match=rf"{named} changed .* `fairlead deploy`"):
            push(
                cluster, PolicySet.load(settings.model_copy(update={field: value})), progress=QUIET
            )
    assert deployed(objects)["data"] == before


def test_settings_that_only_policies_read_are_pushed(
    cluster: Cluster, settings: Settings, opa: OpaApi, policies: Path
) -> None:
    push(
        cluster,
        PolicySet.load(settings.model_copy(update={"pod_selector": "merge"}), policies),
        progress=QUIET,
    )
    assert any('pod_selector := "merge"' in text for text in modules(opa).values())


def test_status_tells_the_revision_and_until_when_certificates_last(
    cluster: Cluster, settings: Settings
) -> None:
    from fairlead.operations.status import status

    data = status(cluster)
    revision = staging.stage(PolicySet.load(settings).bundle, QUIET).revision
    assert {(opa["ready"], opa["revision"]) for opa in data["opa"]} == {(True, revision)}
    assert [c["name"] for c in data["certificates"]] == ["opa-tls", "opa-tls-ca"]
    assert {"name": POLICIES, "status": "ok", "error": None, "used": True} in data["policies"]
    assert any(
        server["name"].rpartition("/")[2] == cluster.sidecar.name for server in data["servers"]
    )

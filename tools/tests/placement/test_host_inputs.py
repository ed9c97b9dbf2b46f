"""What decisions are made from in a host cluster: all workloads of customers, where they run by
Fairlead's policies, and the ConfigMap with the data."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_apiserver
import placed
import pytest
from told_warnings import Warnings

from fairlead.common import waiting
from fairlead.common.errors import InputError, UsageError
from fairlead.deployment.names import PART_OF
from fairlead.kube import resources
from fairlead.kube.api_requests import MOST
from fairlead.placement import decisions, host_inputs, karmada, karmada_apply
from fairlead.placement.decisions import Result
from fairlead.placement.host_inputs import HostInputs
from fairlead.placement.hosts import FIELD_MANAGER, Host
from fairlead.sync.desired import Source

DATA = {"clusters": '{"eu": {}}', "customers": "{}"}
LARGE = "a" * 2 * MOST


def until(check: Callable[[], bool]) -> None:
    waiting.until(check, deadline=30.0, what="the host's inputs are current")


def source(path: str) -> Source:
    return Source("objects", resource=resources.parse(path, namespaced=True))


def inputs(data: Mapping[str, str] = DATA, **parts: Any) -> HostInputs:
    """A host cluster with these data, and with namespaces and Deployments as metadata."""
    host = HostInputs("karmada", only_of_customers=parts.pop("only_of_customers", True))
    config_map = {"metadata": {"name": "placement", "namespace": "fairlead"}, "data": data}
    host.replace(Source("data", "fairlead"), [config_map])
    host.replace(Source("namespaces"), [{"metadata": each} for each in parts.get("spaces", ())])
    deployments = [{"metadata": each, "spec": {}} for each in parts.get("deployments", ())]
    host.replace(source("apps/v1/deployments"), deployments)
    return host


SPACES = [
    {"name": "shop", "labels": {"customer": "acme"}},
    {"name": "bank", "annotations": {"customer": "euro"}},
    {"name": "free"},
]
DEPLOYMENTS = [
    {"name": "by-label", "namespace": "free", "labels": {"customer": "acme"}},
    {"name": "by-annotation", "namespace": "free", "annotations": {"customer": "acme"}},
    {"name": "by-namespace", "namespace": "shop"},
    {"name": "by-note-of-namespace", "namespace": "bank"},
    {"name": "nobodys", "namespace": "free"},
]


def names(host: HostInputs) -> set[str]:
    workloads = host.read(Warnings()).workloads
    return {document.value["metadata"]["name"] for document in workloads}


def test_whoever_names_the_customer_the_workload_counts() -> None:
    host = inputs(spaces=SPACES, deployments=DEPLOYMENTS)
    assert names(host) == {
        *("by-label", "by-annotation", "by-namespace", "by-note-of-namespace"),
    }
    everything = inputs(spaces=SPACES, deployments=DEPLOYMENTS, only_of_customers=False)
    assert "nobodys" in names(everything)


def test_what_looks_like_a_wish_and_is_not_read_is_a_warning() -> None:
    """Also where the misspelt key is the one that names the customer."""
    deployments = [
        {"name": "web", "namespace": "shop", "annotations": {"min-cluster": "2"}},
        {"name": "nobodys", "namespace": "free", "labels": {"costumer": "acme"}},
    ]
    host = inputs(spaces=SPACES, deployments=deployments)
    warnings = Warnings()
    workloads = host.read(warnings).workloads
    assert [each.value["metadata"]["name"] for each in workloads] == ["web"]
    assert warnings.texts == [
        "karmada: Deployment free/nobodys: metadata.labels has 'costumer', which is not read: "
        "did you mean customer?",
        "karmada: Deployment shop/web: metadata.annotations has 'min-cluster', which is not read: "
        "did you mean min-clusters?",
    ]


def test_every_kind_that_runs_pods_counts() -> None:
    host = inputs(spaces=SPACES)
    for path, kind in (
        *(("v1/pods", "Pod"), ("v1/replicationcontrollers", "ReplicationController")),
        *(("apps/v1/daemonsets", "DaemonSet"), ("batch/v1/cronjobs", "CronJob")),
    ):
        metadata = {"name": kind.lower(), "namespace": "shop"}
        host.replace(source(path), [{"metadata": metadata, "spec": {}}])
    assert names(host) == {"pod", "replicationcontroller", "daemonset", "cronjob"}


def test_workloads_run_where_fairleads_policies_have_them() -> None:
    host = inputs(spaces=SPACES, deployments=DEPLOYMENTS)
    workloads = [
        placed.placement({"eu": 2, "us": 1}),
        placed.placement({"eu": 1}, kind="CronJob", changes={"fields": {"eu": {}}}),
        placed.placement({"asia": 1}, name="theirs"),
    ]
    policies = karmada.policies(workloads)
    for number, policy in enumerate(policies):
        manager = FIELD_MANAGER if number < 2 else "kubectl"
        entry = {"manager": manager, "operation": "Apply"}
        policy["metadata"] |= {"uid": str(number), "managedFields": [entry]}
    host.replace(source(f"{karmada.API_VERSION}/propagationpolicies"), policies)
    assert host.read(Warnings()).running == {
        "Deployment shop/web": {"eu": 2, "us": 1},
        "CronJob shop/web": {"eu": 1},
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"clusters": "eu: {}", "customers": "{}"}, "clusters is not JSON"),
        (
            {"clusters.json": "{}", "customers": "{}"},
            r"no key clusters: .*\(its keys are: clusters\.json, customers\)",
        ),
        ({"clusters": "{}"}, r"no key customers: .*--from-file=customers=FILE"),
        (
            {"clusters": "{}", "customers": '{"acme": {"certification": ["pci"]}}'},
            "placement.customers.acme has the key 'certification', .*'certifications'",
        ),
    ],
)
def test_wrong_data_are_named_by_the_config_map_and_its_keys(
    data: dict[str, str], words: str
) -> None:
    with pytest.raises(InputError, match=rf"karmada: ConfigMap fairlead/placement: .*{words}"):
        inputs(data).read(Warnings())


def test_who_may_not_read_the_host_is_told_at_once_what_the_api_server_says(
    tmp_path: Path,
) -> None:
    with fake_apiserver.running() as server:
        kubeconfig = server.kubeconfig(tmp_path)
        document = json.loads(kubeconfig.read_text())
        document["users"][0]["user"] = {"token": "expired"}
        began = time.monotonic()
        host = Host("karmada", json.dumps(document))
        with (
            pytest.raises(UsageError) as caught,
            host_inputs.followed(host, None, progress=Warnings()),
        ):
            pass
        assert str(caught.value) == (
            "karmada: GET /api/v1/namespaces: the API server says 401: Unauthorized"
        )
        assert time.monotonic() - began < 10, "nobody waits for a right"


def test_a_host_without_karmada_is_told_what_it_lacks_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    problem = (
        "near has no Karmada, so it cannot carry out decisions (it does not serve "
        "propagationpolicies and overridepolicies of policy.karmada.io/v1alpha1): name the context "
        "of Karmada's API server by --host"
    )
    with fake_apiserver.running() as server:
        server.unserved = "policy.karmada.io"
        server.put("configmaps", "placement", namespace="fairlead", data=DATA)
        server.put("namespaces", "shop", labels={"customer": "acme"})
        server.put("pods", "web", namespace="shop", spec={"containers": []})
        document = json.loads(server.kubeconfig(tmp_path).read_text())
        document["users"][0]["user"] = {"token": server.token}
        host, warnings = Host("near", json.dumps(document)), Warnings()
        with host_inputs.followed(host, None, progress=warnings) as followed:
            assert names(followed) == {"web"}
        assert (warnings.texts, caplog.messages) == ([problem], [])
        required = host_inputs.followed(host, None, applies=True, progress=warnings)
        with pytest.raises(UsageError) as caught, required:
            pass
        assert str(caught.value) == problem


def test_what_a_tenant_made_too_large_is_named_and_counts_as_neither_there_nor_gone(
    tmp_path: Path,
) -> None:
    with fake_apiserver.running() as server:
        data = {key: text.ljust(2**16) for key, text in DATA.items()}
        server.put("configmaps", "placement", namespace="fairlead", data=data)
        server.put("namespaces", "shop", labels={"customer": "acme"})
        spec = {"containers": [{"name": "c", "image": "x"}]}
        server.put("pods", "small", namespace="shop", spec=spec)
        server.put("pods", "big", namespace="shop", spec={**spec, "hostname": LARGE})
        document = json.loads(server.kubeconfig(tmp_path).read_text())
        document["users"][0]["user"] = {"token": server.token}
        host = Host("karmada", json.dumps(document))
        with host_inputs.followed(host, None, progress=Warnings()) as followed:
            read, before = followed.read(Warnings()), followed.stamp()
            assert [each.value["metadata"]["name"] for each in read.workloads] == ["small"]
            assert read.unread == {"Pod shop/big"}
            server.put("pods", "small", namespace="shop", spec={**spec, "hostname": LARGE})
            until(lambda: followed.read(Warnings()).unread == {"Pod shop/big", "Pod shop/small"})
            assert followed.stamp() != before
            server.put("pods", "big", namespace="shop", spec=spec)
            until(lambda: names(followed) == {"big"})
            assert followed.read(Warnings()).unread == {"Pod shop/small"}


def test_nothing_is_decided_about_a_namespace_that_is_too_large() -> None:
    """Whose it is says its workloads' customer."""
    host = inputs(spaces=SPACES[1:], deployments=DEPLOYMENTS)
    host.watches = [SimpleNamespace(source=Source("namespaces"), left_out={"shop"})]  # type: ignore[list-item]
    assert host.read(Warnings()).unread == {"Deployment shop/by-namespace"}
    host.watches = [SimpleNamespace(source=Source("namespaces"), left_out={"free"})]  # type: ignore[list-item]
    assert names(host) == {"by-note-of-namespace"}


def test_the_policies_of_what_is_too_large_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    workloads = [placed.placement({"eu": 2}, name=name) for name in ("gone", "large")]
    policies = karmada.policies(workloads)
    for policy in policies:
        policy["metadata"]["labels"] = {PART_OF: "fairlead"}
    objects = FakePolicies(policies)
    monkeypatch.setattr(Host, "objects", lambda _: objects)
    failed = placed.placement({}, errors={"clusters": ["none"]})
    result = Result([(failed.document, failed)], unread={"Deployment shop/large"})
    report = karmada_apply.keep(result, Host("karmada", ""), progress=Warnings())
    assert report.problems == []
    assert objects.deleted == ["gone-deployment"]


class FakePolicies:
    """An API server with these policies."""

    def __init__(self, policies: list[dict[str, Any]]) -> None:
        self.policies = policies
        self.deleted: list[str] = []

    def collection(self, path: str, selector: Mapping[str, str]) -> list[dict[str, Any]]:
        """The policies of this kind."""
        assert selector == {}
        return [each for each in self.policies if path.endswith(f"/{each['kind'].lower()[:-1]}ies")]

    def get(self, *identity: str) -> dict[str, Any]:
        """Something is there."""
        return {"metadata": {"name": identity[2]}}

    def delete(self, api_version: str, kind: str, name: str, namespace: str) -> None:
        """Note it."""
        self.deleted.append(name)


def test_a_decision_names_what_could_not_be_read() -> None:
    documents = inputs(spaces=SPACES, deployments=DEPLOYMENTS[:1]).read(Warnings()).documents
    data: dict[str, Any] = {"placement": {"clusters": {}, "customers": {}}}
    left_out = decisions.Inputs(documents, data, unread={"Deployment shop/large"})
    result = decisions.decide(left_out, progress=Warnings())
    assert result.unread == {"Deployment shop/large"}
    assert result.notes == [
        "Deployment shop/large is left out: it is too large to be read, and stays where it runs"
    ]


def test_without_a_workload_nothing_is_changed() -> None:
    """As by a mistyped selector: namespaces are there in any case."""
    result = placed.result(placed.follower([], kind="Namespace", namespace=""))
    report = karmada_apply.keep(result, Host("karmada", ""), progress=Warnings())
    assert report.problems == ["karmada: no workload matches the selector. Nothing was changed"]


def test_a_report_says_what_the_api_server_says(tmp_path: Path) -> None:
    with fake_apiserver.running() as server:
        document = json.loads(server.kubeconfig(tmp_path).read_text())
        document["users"][0]["user"] = {"token": "expired"}
        host = Host("karmada", json.dumps(document))
        result = placed.result(placed.placement({"eu": 1}))
        report = karmada_apply.keep(result, host, progress=Warnings())
        sentence = "cannot read the API's resources: the API server says 401: Unauthorized"
        assert report.problems == [f"karmada: {sentence}"]


def test_an_exec_plugin_that_fails_is_named_with_the_kubeconfig_of_the_user(
    tmp_path: Path,
) -> None:
    with fake_apiserver.running() as server:
        file = server.kubeconfig(tmp_path)
        document = json.loads(file.read_text())
        api_version = "client.authentication.k8s.io/v1"
        exec_config = {"apiVersion": api_version, "command": "no-such-plugin"}
        document["users"][0]["user"] = {"exec": exec_config}
        file.write_text(json.dumps(document))
        host = Host.of_context("test", file)
        uses: tuple[Callable[[], Any], ...] = (
            lambda: host_inputs.followed(host, None, progress=Warnings()).__enter__(),
            host.objects,
        )
        for use in uses:
            with pytest.raises(UsageError) as caught:
                use()
            assert str(caught.value).startswith(f"{file}: the exec plugin 'no-such-plugin' gives")
        assert server.requests == [], "nothing was sent in nobody's name"


def test_a_host_that_is_away_is_named_with_the_kubeconfig_of_the_user(tmp_path: Path) -> None:
    with fake_apiserver.running() as server:
        file = server.kubeconfig(tmp_path)
    with pytest.raises(UsageError) as caught:
        Host.of_context("test", file).objects()
    assert str(caught.value).startswith(f"{file}: cannot read the API's resources: the API server")

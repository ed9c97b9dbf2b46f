"""A push brings exactly the tested policies into force, or leaves all as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead import kube, manifests, policy, serving
from fairlead.clusters.base import Cluster
from fairlead.errors import FairleadError, UsageError
from fairlead.opa_api import OpaApi
from fairlead.progress import Progress
from fairlead.push import push
from fairlead.settings import NAMESPACE, Settings

QUIET = Progress()
OURS = f"{NAMESPACE}/{manifests.POLICIES}/"


@pytest.fixture
def policies(tmp_path: Path, cluster: Cluster) -> Iterator[Path]:
    """A copy of the policies to change; afterwards the project's own are in force again."""
    copy = tmp_path / "policies"
    shutil.copytree(policy.folder(), copy)
    yield copy
    push(cluster, Settings(), progress=QUIET)


def modules(opa: OpaApi) -> dict[str, str]:
    return {id_.removeprefix(OURS): text for id_, text in opa.policies().items() if id_.startswith(OURS)}


def deployed(objects: kube.Objects) -> dict[str, Any]:
    found = objects.get("v1", "ConfigMap", manifests.POLICIES, NAMESPACE)
    assert found is not None
    return found


def test_a_pushed_policy_is_in_force_when_push_returns(
    cluster: Cluster,
    objects: kube.Objects,
    opa: OpaApi,
    policies: Path,
    namespace: Callable[..., str],
    pod: Callable[..., Any],
) -> None:
    main = policies / "node_pool" / "node_pool.rego"
    main.write_text(main.read_text().replace("remove spec.nodeName", "ask the platform team"))
    tests = policies / "node_pool" / "node_pool_test.rego"
    tests.write_text(tests.read_text().replace("remove spec.nodeName", "ask the platform team"))
    tests = policies / "main_test.rego"
    tests.write_text(tests.read_text().replace("remove spec.nodeName", "ask the platform team"))
    result = push(cluster, Settings(), policies, progress=QUIET)
    assert policy.revision(modules(opa)) == result["revision"] != result["previous"]
    assert [one["revision"] for one in result["opa"]] == [result["revision"]]
    assert deployed(objects)["metadata"]["annotations"][manifests.REVISION] == result["revision"]
    with pytest.raises(kube.Refused, match="ask the platform team"):
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
    cluster: Cluster, objects: kube.Objects, opa: OpaApi, policies: Path, file: str, text: str, reason: str
) -> None:
    if "objct" in text:
        text = "# METADATA\n# schemas:\n#   - input: schema.admission_review\n" + text
        reason = r"extra\.rego:5"
    (policies / file).write_text(text)
    before, served = deployed(objects), modules(opa)
    with pytest.raises(FairleadError, match=reason):
        push(cluster, Settings(), policies, progress=QUIET)
    assert deployed(objects) == before
    assert modules(opa) == served


def test_what_opa_does_not_take_is_taken_back(
    cluster: Cluster, objects: kube.Objects, opa: OpaApi, policies: Path
) -> None:
    """It compiles by itself, but not beside what another ConfigMap has loaded already."""
    objects.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "other",
                "namespace": NAMESPACE,
                "labels": {"openpolicyagent.org/policy": "rego"},
            },
            "data": {"other.rego": "package shared\n\nlimit := 1\n"},
        }
    )
    before, served = deployed(objects)["data"], modules(opa)
    (policies / "shared.rego").write_text("package shared\n\nlimit(x) := x\n")
    with pytest.raises(FairleadError, match="was put back and is in force"):
        push(cluster, Settings(), policies, progress=QUIET)
    assert deployed(objects)["data"] == before
    assert modules(opa) == served
    assert opa.ready()


def test_settings_that_take_a_deployment_are_not_half_pushed(cluster: Cluster, objects: kube.Objects) -> None:
    before = deployed(objects)
    with pytest.raises(UsageError, match=r"namespaceLabel changed .* `fairlead deploy`"):
        push(cluster, Settings(namespace_label="pool"), progress=QUIET)
    assert deployed(objects) == before


def test_settings_that_only_policies_read_are_pushed(cluster: Cluster, opa: OpaApi, policies: Path) -> None:
    push(cluster, Settings(enforcement="warn"), policies, progress=QUIET)
    assert opa.document(["settings", "enforcement"]) == "warn"


def test_status_tells_the_revision_and_until_when_certificates_last(cluster: Cluster, objects: kube.Objects) -> None:
    from fairlead.status import status

    data = status(cluster)
    (opa,) = data["opa"]
    assert opa["ready"] is True
    assert opa["revision"] == policy.bundle(Settings()).revision
    assert [c["name"] for c in data["certificates"]] == ["opa-tls", "opa-tls-ca"]
    assert {"name": manifests.POLICIES, "status": "ok", "error": None} in data["policies"]
    assert {"etcd", "kube-apiserver", "opa", "sync"} <= {server["name"] for server in data["servers"]}
    assert serving.credentials(objects) is not None

"""`fairlead eval` and the program behind it, with the real OPA."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.decisions.eval import command
from fairlead.clusters import registry
from fairlead.common import paths
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli
from fairlead.policy import policy_files
from lab import coverage
from lab.coverage import Coverage

POD = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: payments}\nspec: {containers: "
    "[]}\n"
)
NOTE = "fairlead.dev/assigned"
PLACED = '{"nodeSelector":{"agentpool":"pool1"},"tolerations":[]}'
REVIEW = paths.root() / "testdata" / "review.json"


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A plain pod in the namespace payments."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        command, [str(a) for a in arguments], standalone_mode=False, catch_exceptions=False
    )


def decided(*arguments: str | Path) -> Any:
    """The command's output as JSON."""
    return json.loads(run(*arguments, "-o", "json").stdout)


def test_a_manifest_in_a_mapped_namespace_is_patched(pod: Path) -> None:
    data = decided(pod, "--namespace-labels", "agentpool=pool1")
    assert list(data) == [
        "asked",
        "reason",
        "allowed",
        "message",
        "warnings",
        "patch",
        "object",
        "explanation",
        "review",
    ]
    assert (data["asked"], data["reason"], data["allowed"]) == (True, "", True)
    assert data["patch"] == [
        {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}},
        {"op": "add", "path": "/metadata/annotations", "value": {NOTE: PLACED}},
    ]
    assert data["object"]["spec"] == {"containers": [], "nodeSelector": {"agentpool": "pool1"}}
    assert (
        data["explanation"][0]
        == 'namespace "payments" belongs to pool "pool1" by its label agentpool'
    )
    assert data["review"]["response"]["patchType"] == "JSONPatch"


def test_a_refusal_is_a_decision_too(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace("containers: []", "containers: [], nodeName: n1"))
    result = run(path, "--namespace-labels", "agentpool=pool1")
    assert not result.return_value
    assert result.stdout.startswith("refused  CREATE of Pod payments/web\nmessage  ")
    assert "remove spec.nodeName" in result.stdout
    assert decided(path, "--namespace-labels", "agentpool=pool1")["object"] is None


def test_people_see_the_decision_the_reasons_and_the_object(pod: Path) -> None:
    text = run(pod, "--namespace-labels", "agentpool=pool1").stdout
    head, _, after = text.partition("\nThe object after the patch:\n\n")
    assert head.splitlines()[:2] == [
        "allowed  CREATE of Pod payments/web",
        'patch    add /spec/nodeSelector {"agentpool": "pool1"}',
    ]
    assert yaml.safe_load(after)["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def test_what_an_earlier_pool_gave_to_a_daemon_set_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    note = {NOTE: PLACED}
    spec: dict[str, Any] = {"containers": []}
    template = {
        "metadata": {"annotations": note},
        "spec": {**spec, "nodeSelector": {"agentpool": "pool1"}},
    }
    metadata = {"name": "agent", "namespace": "payments"}
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {"template": template},
    }
    path.write_text(json.dumps(manifest))
    moved = decided(path, "--namespace-labels", "agentpool=pool2")
    assert moved["object"]["spec"]["template"]["spec"] == {
        **spec,
        "nodeSelector": {"agentpool": "pool2"},
    }
    assert (
        "its template has nodeSelector agentpool=pool1 from an earlier decision, not from its "
        "author" in (moved["explanation"])
    )
    free = decided(path, "--namespace-labels", "")
    assert free["object"]["spec"]["template"] == {
        "metadata": {"annotations": {}},
        "spec": spec,
    }
    assert "what an earlier pool gave to its template is removed" in free["explanation"]


def test_a_review_is_decided_as_it_is() -> None:
    data = decided(REVIEW, "--namespace-labels", "agentpool=pool2")
    assert data["review"]["response"]["uid"] == json.loads(REVIEW.read_text())["request"]["uid"]
    assert data["object"]["spec"]["nodeSelector"] == {"agentpool": "pool2"}


def test_a_namespace_that_nothing_is_said_of_is_unknown(pod: Path) -> None:
    data = decided(pod)
    assert data["allowed"] is False
    assert 'namespace "payments" is not known' in data["message"]
    assert data["explanation"] == [
        'no labels of namespace "payments" were given: add --namespace-labels KEY=VALUE, '
        "its manifest to the files, or --live"
    ]


def test_a_namespace_without_labels_is_left_alone(pod: Path) -> None:
    data = decided(pod, "--namespace-labels", "")
    assert (data["allowed"], data["patch"]) == (True, [])


def clustered(monkeypatch: pytest.MonkeyPatch, *webhooks: dict[str, Any]) -> list[str]:
    """The options of a cluster with one namespace and these webhook configurations."""

    class Objects:
        def list(self, *query: Any) -> list[dict[str, Any]]:
            assert query[2:] == (None,)
            return [each for each in webhooks if query[:2] == (each["apiVersion"], each["kind"])]

        visible = list

        def kinds(self) -> tuple[()]:
            return ()

        def namespaces(self) -> dict[str, Any]:
            return {
                "payments": {"metadata": {"name": "payments", "labels": {"agentpool": "pool3"}}}
            }

    class Cluster:
        def objects(self) -> Objects:
            return Objects()

    monkeypatch.setattr(registry, "find", {registry.Target(name="mine"): Cluster()}.__getitem__)
    return ["--live", "--name", "mine"]


def configuration(*webhooks: dict[str, Any]) -> dict[str, Any]:
    """A configuration as somebody may have changed it in a cluster."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "fairlead"},
        "webhooks": list(webhooks),
    }


def webhook(**more: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    return {"name": "a.fairlead.dev", "rules": [rule], **more}


def test_a_running_cluster_knows_its_namespaces(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = clustered(monkeypatch, configuration(webhook()))
    data = decided(pod, *options)
    assert data["object"]["spec"]["nodeSelector"] == {"agentpool": "pool3"}
    other = pod.with_name("other.yaml")
    other.write_text(POD.replace("payments", "other"))
    data = decided(other, *options)
    assert (data["asked"], data["allowed"]) == (False, False)
    assert data["message"] == 'the cluster has no namespace "other": create it first'


def test_a_running_cluster_asks_by_its_own_webhooks(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = webhook(objectSelector={"matchExpressions": [{"key": "place", "operator": "Exists"}]})
    options = clustered(monkeypatch, configuration(changed))
    data = decided(pod, *options)
    assert (data["asked"], data["reason"]) == (False, "the object has no label place")
    assert (data["allowed"], data["message"], data["patch"]) == (True, "", [])
    assert (data["object"]["spec"], data["review"]) == ({"containers": []}, None)


def test_a_cluster_without_fairlead_asks_as_it_would_after_a_deployment(
    pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = decided(pod, *clustered(monkeypatch))
    assert (data["asked"], len(data["patch"])) == (True, 2)
    assert any("the cluster has no webhooks of Fairlead" in line for line in data["explanation"])


@pytest.mark.parametrize(
    ("more", "refused", "words"),
    [
        ({"failurePolicy": "Ignore"}, False, "its failurePolicy is Ignore: matchCondition urgent "),
        ({"failurePolicy": "Fail"}, True, "its failurePolicy is Fail: "),
        ({}, True, "no such key: priority"),
    ],
)
def test_a_match_condition_that_fails_is_told_and_decides_by_the_failure_policy(
    pod: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], refused: bool, words: str
) -> None:
    conditions = [{"name": "urgent", "expression": "object.spec.priority > 3"}]
    changed = configuration(webhook(matchConditions=conditions, **more))
    data = decided(pod, *clustered(monkeypatch, changed))
    assert (data["asked"], data["allowed"]) == (False, not refused)
    assert words in data["reason"]
    assert data["message"] == (data["reason"] if refused else "")


@pytest.mark.parametrize(
    ("manifest", "options", "reason"),
    [
        (POD.replace("payments", "kube-system"), [], 'namespace "kube-system" is exempt'),
        (POD, ["--namespace-labels", ""], 'namespace "payments" has no label agentpool'),
        (
            POD,
            ["--namespace-labels", "agentpool="],
            'label agentpool of namespace "payments" is empty',
        ),
        (POD.replace("kind: Pod", "kind: ConfigMap"), [], "no webhook is for ConfigMaps"),
        (
            POD.replace("v1\nkind: Pod", "networking.k8s.io/v1\nkind: NetworkPolicy").replace(
                "containers: []", ""
            ),
            [],
            "no webhook is for NetworkPolicies",
        ),
        (POD, ["--operation", "DELETE"], "no webhook is for DELETE of Pods"),
        (
            POD,
            ["--operation", "UPDATE", "--namespace-labels", "agentpool=a"],
            "matchCondition placement-changes is false",
        ),
    ],
)
def test_what_opa_is_not_asked_about_is_told_with_the_reason(
    tmp_path: Path, manifest: str, options: list[str], reason: str
) -> None:
    path = tmp_path / "sent.yaml"
    path.write_text(manifest)
    data = decided(path, *options)
    assert (data["asked"], data["allowed"], data["reason"]) == (False, True, reason)
    lines = run(path, *options).stdout.splitlines()
    assert lines[0].startswith("not asked  ")
    assert lines[1:] == [f"because    {reason}"]


OWN = "pools: {gpu: {}}\nintents: {required-labels: {parameters: {labels: [{key: team}]}}}\n"
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {team: a}}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: nginx}]}}
"""
GPU = ("--namespace-labels", "agentpool=gpu")


def reasons(folder: Path, manifest: str, *options: str, settings: str = OWN) -> Any:
    """The decision by settings of its own."""
    for name, text in (("fairlead.yaml", settings), ("object.yaml", manifest)):
        (folder / name).write_text(text)
    return decided(folder / "object.yaml", "--settings", str(folder / "fairlead.yaml"), *options)


def test_what_a_refusal_is_about_says_why_and_nothing_else_does(tmp_path: Path) -> None:
    refused = reasons(tmp_path, DEPLOYMENT.replace("labels: {team: a}", "labels: {}"), *GPU)
    assert (refused["allowed"], refused["explanation"]) == (False, [])
    allowed = reasons(tmp_path, DEPLOYMENT, *GPU)
    assert "node-pool changes only the pods of a Deployment" in allowed["explanation"]
    of_both = reasons(
        tmp_path,
        DEPLOYMENT.replace("labels: {team: a}", "labels: {}").replace(
            "spec: {containers", "spec: {nodeSelector: {agentpool: other}, containers"
        ),
        *GPU,
    )
    assert of_both["allowed"] is False
    assert "node-pool changes only the pods of a Deployment" in of_both["explanation"]


def test_a_namespace_with_a_declared_pool_has_nothing_to_check(tmp_path: Path) -> None:
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {agentpool: gpu}}\n"
    data = reasons(tmp_path, namespace, settings="pools: {gpu: {}}\n")
    assert data["asked"] is False
    assert data["reason"] == '"gpu" is a declared pool, so there is nothing to check'
    unknown = reasons(tmp_path, namespace.replace("gpu", "cpu"), settings="pools: {gpu: {}}\n")
    assert unknown["asked"] is True


def test_nobody_is_told_to_wait_for_a_file(tmp_path: Path) -> None:
    data = reasons(tmp_path, POD)
    assert data["allowed"] is False
    assert 'pod "web": namespace "payments" is not known' in data["message"].split("; ")
    assert data["explanation"] == [
        'no labels of namespace "payments" were given: add --namespace-labels KEY=VALUE, '
        "its manifest to the files, or --live"
    ]


def test_subresources_are_named(tmp_path: Path) -> None:
    review = json.loads(REVIEW.read_text())
    review["request"] |= {"operation": "CONNECT", "subResource": "exec"}
    del review["request"]["object"]
    path = tmp_path / "review.json"
    path.write_text(json.dumps(review))
    assert decided(path)["reason"] == "no webhook is for pods/exec"


def test_a_review_without_the_namespace_of_its_pod_is_decided_by_the_policies(
    tmp_path: Path,
) -> None:
    review = json.loads(REVIEW.read_text())
    del review["request"]["namespace"]
    path = tmp_path / "review.json"
    path.write_text(json.dumps(review))
    data = decided(path)
    assert (data["asked"], data["allowed"]) == (True, False)
    assert data["reason"] == (
        "no API server sends such a review: it has no namespace, to which all Pods belong"
    )


def test_an_object_that_no_api_server_accepts_is_refused_without_opa(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace("containers: []", "containers: none"))
    data = decided(path, "--namespace-labels", "agentpool=pool1")
    assert (data["asked"], data["allowed"]) == (False, False)
    assert "an API server does not accept the object: it is not a Pod: " in data["message"]
    assert "spec.containers" in data["message"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "metadata: {",
            "metadata: {labels: {v: '${V}'}, ",
            "metadata.labels: '${V}' is a variable",
        ),
        ("kind: Pod", "kind: Pods", "v1 has no kind 'Pods': did you mean Pod?"),
    ],
)
def test_an_object_with_a_wrong_name_is_refused_as_the_gate_refuses_it(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace(old, new))
    data = decided(path, "--namespace-labels", "agentpool=pool1")
    assert (data["asked"], data["allowed"], data["object"]) == (False, False, None)
    assert data["message"].startswith(f"an API server does not accept it: {words}")


def test_what_kubectl_reads_and_nobody_means_is_told(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(f"{POD.rstrip()}\nkind: Pod\n")
    assert f"{path}: line " in run(path).stderr
    assert "the key 'kind' stands here twice" in run(path).stderr


def test_settings_decide_which_namespaces_are_asked_about(pod: Path, tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text("defaultPool: shared\n")
    data = decided(pod, "--namespace-labels", "", "--settings", settings)
    assert (data["asked"], len(data["patch"])) == (True, 2)
    data = decided(pod, "--namespace-labels", "agentpool=", "--settings", settings)
    assert (data["asked"], data["patch"]) == (False, [])


def test_settings_are_those_of_the_file(pod: Path, tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text(
        "nodeLabel: gke\npools: {gpu: {tolerations: [{key: gpu, operator: Exists}]}}\n"
    )
    data = decided(pod, "--namespace-labels", "agentpool=gpu", "--settings", settings)
    assert data["object"]["spec"]["nodeSelector"] == {"cloud.google.com/gke-nodepool": "gpu"}
    assert data["object"]["spec"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert (
        decided(pod, "--namespace-labels", "agentpool=tpu", "--settings", settings)["allowed"]
        is False
    )


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_other_operations_on_a_manifest_are_left_alone(pod: Path, operation: str) -> None:
    data = decided(pod, "--namespace-labels", "agentpool=pool1", "--operation", operation)
    assert (data["allowed"], data["patch"]) == (True, [])


def test_several_documents_get_a_list(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"{POD}---\napiVersion: v1\nkind: Service\nmetadata: {{name: web}}\n")
    data = decided(path, "--namespace-labels", "agentpool=pool1")
    assert [len(answer["patch"]) for answer in data] == [2, 0]
    assert (
        "\n\nnot asked  CREATE of Service default/web\nbecause    no webhook is for Services\n"
        in run(path, "--namespace-labels", "agentpool=pool1").stdout
    )


def test_a_malformed_review_is_decided_by_the_policies(tmp_path: Path) -> None:
    path = tmp_path / "review.yaml"
    path.write_text(
        "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {uid: a, kind: Pod}\n"
    )
    data = decided(path)
    assert (data["asked"], data["allowed"]) == (True, False)
    assert data["reason"].startswith("no API server sends such a review: ")
    assert data["review"]["response"]["uid"] == "a"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--namespace-labels", "agentpool"], "not a label: write key=value"),
        (["--namespace-labels", "agentpool=-x"], "not a label value"),
        (["--namespace-labels", "a b=c"], "not a label key"),
        (["--namespace-labels", "a=b,a=c"], "'a' is given twice"),
        (["--namespace", "other"], "is for namespace 'payments', not 'other'"),
        (["--live", "--namespace-labels", "a=b"], "give one of them"),
        (["--live", "--name", "nowhere"], "no cluster 'nowhere' is running"),
    ],
)
def test_wrong_usage_is_told(pod: Path, arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run(pod, *arguments)


@pytest.mark.parametrize("option", ["--namespace", "--operation"])
def test_a_review_says_itself_what_it_is(option: str) -> None:
    value = {"--namespace": "other", "--operation": "DELETE"}[option]
    with pytest.raises(UsageError, match=f"leave out {option}"):
        run(REVIEW, option, value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "a mapping is expected"),
        (b'{"apiVersion": "v1", "kind": "P', "not valid JSON"),
        (
            b'{"apiVersion":"v1","kind":"Pod","spec":' + b'{"a":' * 200 + b"1" + b"}" * 201,
            "nested more than 100 levels deep",
        ),
        (b'{"apiVersion":"v1","kind":"Pod","spec":' + b"[" * 50_000, "nested too deeply"),
    ],
)
def test_a_file_that_holds_nothing_to_decide_is_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "input"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        run(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        run(tmp_path / "none.yaml")


def test_a_query_is_evaluated() -> None:
    modules = {"a.b.rego": "package a.b\nx := input.n + data.m"}
    assert cli.evaluate("data.a.b.x", modules=modules, data={"m": 1}, input={"n": 2}) == 3
    assert cli.evaluate("data.a.b.x", modules=modules, data={}) is None


def test_a_module_that_does_not_compile_is_named_with_its_line() -> None:
    with pytest.raises(
        FairleadError, match=r"OPA cannot evaluate data\.a: a\.rego:3: rego_unsafe_var_error"
    ):
        cli.evaluate("data.a", modules={"a.rego": "package a\n\nx := y"}, data={})


def test_flags_of_opa_in_the_environment_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPA_EVAL_FORMAT", "pretty")
    monkeypatch.setenv("OPA_EVAL_FAIL", "true")
    assert cli.evaluate("1 + 1", modules={}, data={}) == 2


def test_the_tests_of_policies_are_counted_named_and_measured(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a\n\nx := 1\n\ny if {\n\tinput.b\n}\n")
    (tmp_path / "a_test.rego").write_text("package a_test\n\ntest_good if data.a.x == 1\n")
    tested = cli.test(tmp_path)
    assert (tested.passed, tested.failed) == (1, ())
    reached = coverage.measure(tmp_path, Progress())
    assert 0 < reached.percent < 100
    assert [line.rpartition("/")[2] for line in reached.uncovered] == ["a.rego:5", "a.rego:6"]


def test_tests_that_fail_are_named(tmp_path: Path) -> None:
    bad = "test_bad if data.a.x == 2\n\ntest_error if 1 / 0 == 1\n\ntodo_test_later if true\n"
    (tmp_path / "a.rego").write_text("package a\n\nx := 1\n")
    (tmp_path / "a_test.rego").write_text(f"package a_test\n\ntest_good if data.a.x == 1\n\n{bad}")
    tested = cli.test(tmp_path)
    assert tested.passed == 1
    assert [name.rpartition(": ")[2] for name in tested.failed] == [
        "data.a_test.test_bad",
        "data.a_test.test_error",
    ]
    assert tested.failed[0].split(": ")[0].endswith("a_test.rego:5")


def test_tests_that_all_pass_cover_all(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a\n\nx := 1\n")
    (tmp_path / "a_test.rego").write_text("package a_test\n\ntest_good if data.a.x == 1\n")
    assert cli.test(tmp_path) == cli.Tested(1, ())
    assert coverage.measure(tmp_path, Progress()) == Coverage(100.0, ())


def test_policies_that_cannot_be_tested_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(FairleadError, match="holds no tests"):
        cli.test(tmp_path)
    (tmp_path / "a.rego").write_text("package a\n\nx := y\n")
    with pytest.raises(FairleadError, match=r"a\.rego:3"):
        cli.test(tmp_path)
    with pytest.raises(FairleadError, match=r"a\.rego:3"):
        cli.check(tmp_path, paths.root() / "tools" / "schemas")


def test_files_that_are_not_formatted_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.rego").write_text("package a\nx:=1\n")
    (tmp_path / "b.rego").write_text("package b\n\nx := 1\n")
    assert [Path(name).name for name in cli.fmt(tmp_path)] == ["a.rego"]
    (tmp_path / "b.rego").write_text("package\n")
    with pytest.raises(FairleadError, match=r"b\.rego:"):
        cli.fmt(tmp_path)


def test_our_own_policies_pass() -> None:
    cli.check(policy_files.builtin(), paths.root() / "tools" / "schemas")
    assert cli.fmt(policy_files.builtin()) == []

"""`fairlead eval` as a gate over files and folders, with the real OPA."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.admission import asked, batch, gate, request_files
from fairlead.cli.decisions.eval import command
from fairlead.clusters import registry
from fairlead.common import paths
from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.policy import policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

NAMESPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: payments, labels: {agentpool: pool1}}
"""
PLAIN = """\
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: payments}
spec: {containers: []}
"""
PINNED = """\
apiVersion: v1
kind: Pod
metadata: {name: pinned, namespace: payments}
spec: {containers: [], nodeName: n1}
"""
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: payments}
spec:
  selector: {matchLabels: {app: web}}
  template: {spec: {containers: [], nodeSelector: {agentpool: gpu}}}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: payments}
"""
POLICY = """\
# METADATA
# title: Services
package services

decision := {"deny": set(), "patch": [], "warn": set()}
"""
FACTS = """\
requests:
  - kinds: [v1/Service]
    operations: [CREATE]
    namespaces: {matchLabels: {stage: production}}
"""
REFUSAL = (
    'pod "pinned" sets spec.nodeName=n1, but namespace "payments" places its pods in pool '
    '"pool1": remove spec.nodeName'
)


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder `apps` in the working folder, with an object for each outcome."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "all.yaml").write_text("---\n".join((NAMESPACE, PLAIN, PINNED, WORKLOAD)))
    (folder / "service.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}})
    )
    (folder / "values.yaml").write_text("replicas: 2\n")
    return Path("apps")


def run(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(
        command,
        [str(argument) for argument in arguments],
        input=stdin,
        standalone_mode=False,
        catch_exceptions=False,
    )


def report(*arguments: str | Path, stdin: str | None = None) -> Any:
    """The command's output as JSON."""
    return json.loads(run(*arguments, "-o", "json", stdin=stdin).stdout)


def outcomes(data: Any) -> list[tuple[str, str, str]]:
    return [(line["kind"], line["name"], line["outcome"]) for line in data["objects"]]


def test_a_folder_gets_one_verdict_for_each_object(manifests: Path) -> None:
    data = report(manifests)
    assert outcomes(data) == [
        ("Namespace", "payments", "admitted"),
        ("Pod", "plain", "changed"),
        ("Pod", "pinned", "refused"),
        ("Deployment", "web", "refused"),
        ("Service", "web", "admitted"),
    ]
    assert [(line["file"], line["line"]) for line in data["objects"]] == [
        *(("apps/all.yaml", line) for line in (1, 5, 10, 15)),
        ("apps/service.json", 1),
    ]
    assert data["counts"] == {"refused": 2, "warned": 0, "changed": 1, "admitted": 2}
    assert (data["skipped"], data["failed"], data["unknownNamespaces"]) == (1, 0, [])
    assert data["objects"][2]["findings"] == [
        {"finding": "refused", "intent": "node-pool", "message": REFUSAL}
    ]
    assert data["objects"][1]["patch"] == [
        {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}
    ]
    (warning,) = data["objects"][3]["findings"]
    assert warning["message"].startswith('every pod of Deployment "web" will be refused: ')


def test_people_see_the_place_of_each_finding(manifests: Path) -> None:
    lines = run(manifests).stdout.splitlines()
    assert lines[0] == f"apps/all.yaml:10: refused: Pod payments/pinned: {REFUSAL} [node-pool]"
    assert lines[1].startswith("apps/all.yaml:15: refused: Deployment payments/web: every pod of")
    assert lines[2:] == [
        "",
        "5 objects in 2 files: 2 refused, 1 changed, 2 admitted; "
        "skipped, as no Kubernetes objects: 1",
    ]
    assert (
        'apps/all.yaml:5: changed: Pod payments/plain: add /spec/nodeSelector {"agentpool": '
        '"pool1"} [node-pool]' in run(manifests, "--fail-on", "changed").stdout.splitlines()
    )


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [
        ((), []),
        (("refused",), ["pinned", "web"]),
        (("warned",), []),
        (("changed",), ["plain"]),
        (("refused,warned", "changed"), ["plain", "pinned", "web"]),
    ],
)
def test_only_the_named_findings_fail(
    manifests: Path, fail_on: tuple[str, ...], failed: list[str]
) -> None:
    arguments = [word for finding in fail_on for word in ("--fail-on", finding)]
    result = run(manifests, *arguments, "-o", "json")
    data = json.loads(result.stdout)
    assert [line["name"] for line in data["objects"] if line["failed"]] == failed
    assert (result.return_value, data["failed"]) == (int(bool(failed)), len(failed))


def test_one_file_that_fails_exits_with_1(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(PINNED)
    labels = ("--namespace-labels", "agentpool=pool1")
    assert run(path, *labels, "--fail-on", "refused").return_value == 1
    assert run(path, *labels, "--fail-on", "warned,changed").return_value == 0
    assert run(path, *labels).return_value == 0


def test_an_unknown_finding_is_wrong_usage(manifests: Path) -> None:
    with pytest.raises(click.BadParameter, match="'denied' is not one of refused, warned, changed"):
        run(manifests, "--fail-on", "refused,denied")


def test_the_output_of_two_runs_is_the_same(manifests: Path) -> None:
    for form in ("table", "json", "yaml", "junit", "sarif"):
        assert run(manifests, "-o", form).stdout == run(manifests, "-o", form).stdout
    file = manifests / "all.yaml"
    assert run(file, "-o", "json").stdout == run(file, "-o", "json").stdout


def test_a_namespace_in_another_file_counts(manifests: Path) -> None:
    Path("namespaces.yaml").write_text(NAMESPACE)
    Path("pod.yaml").write_text(PLAIN)
    for order in (("namespaces.yaml", "pod.yaml"), ("pod.yaml", "namespaces.yaml")):
        assert ("Pod", "plain", "changed") in outcomes(report(*order))


def test_a_namespace_in_the_same_file_counts_without_a_gate(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text(f"{NAMESPACE}---\n{PLAIN}")
    data = json.loads(run(path, "-o", "json").stdout)
    assert data[1]["object"]["spec"]["nodeSelector"] == {"agentpool": "pool1"}


def test_a_manifest_says_more_of_a_namespace_than_options_and_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "all.yaml"
    other = PLAIN.replace("payments", "training")
    path.write_text(f"{NAMESPACE}---\n{PLAIN}---\n{other}")

    def pools(*arguments: str) -> list[Any]:
        objects = report(path, "--fail-on", "refused", *arguments)["objects"]
        return [operation["value"]["agentpool"] for line in objects for operation in line["patch"]]

    assert pools("--namespace-labels", "agentpool=pool2") == ["pool1", "pool2"]

    class Cluster:
        """Fairlead is not deployed there."""

        def objects(self) -> Cluster:
            return self

        def list(self, *_: object) -> list[dict[str, Any]]:
            return []

        visible = list

        def kinds(self) -> tuple[()]:
            return ()

        def namespaces(self) -> dict[str, Any]:
            return {
                name: {"metadata": {"name": name, "labels": {"agentpool": "pool3"}}}
                for name in ("payments", "training")
            }

    monkeypatch.setattr(registry, "find", lambda _: Cluster())
    assert pools("--live") == ["pool1", "pool3"]


def test_manifests_that_contradict_each_other_are_told_and_all_is_judged(tmp_path: Path) -> None:
    for folder, pool in (("dev", "pool1"), ("prod", "pool2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "ns.yaml").write_text(NAMESPACE.replace("pool1", pool))
    (tmp_path / "pod.yaml").write_text(PLAIN)
    result = run(tmp_path, "--fail-on", "refused")
    assert result.return_value == 2
    assert "3 objects in 3 files: 1 changed, 2 admitted; not readable: 1" in result.stdout
    assert re.search(
        r"prod/ns.yaml:\d: gives namespace 'payments' other labels than .*dev/ns", result.stderr
    )
    assert run(tmp_path / "dev").return_value == 0


def test_a_namespace_whose_labels_are_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ns.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels: [b]\n")
    result = run(path, "--fail-on", "refused")
    assert (result.return_value, "it is not a Namespace" in result.stdout) == (1, True)


def test_an_unknown_namespace_is_refused_and_told(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("---\n".join((PLAIN, WORKLOAD, SERVICE)))
    result = run(tmp_path, "--fail-on", "refused", "-o", "json")
    data = json.loads(result.stdout)
    assert result.return_value == 1
    assert [line["outcome"] for line in data["objects"]] == ["refused", "admitted", "admitted"]
    assert data["unknownNamespaces"] == ["payments"]
    advice = (
        'the labels of namespace "payments" are not known: name the file with its manifest, too, '
        "or add --namespace-labels or --live"
    )
    assert [line["notes"] for line in data["objects"]] == [
        [advice],
        [advice],
        ["not asked: no webhook is for Services"],
    ]
    assert data["objects"][0]["findings"][0]["message"].endswith(advice)
    assert result.stderr.splitlines()[-1] == f"warning: {advice}"
    unmapped = run(tmp_path, "--fail-on", "refused", "--namespace-labels", "")
    assert (unmapped.return_value, unmapped.stderr) == (
        0,
        "settings: none, so the defaults\nintents: node-pool\n",
    )


def test_an_unknown_namespace_is_told_for_the_kinds_of_a_users_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policies" / "services" / "services.rego"
    policy.parent.mkdir(parents=True)
    policy.write_text(POLICY)
    policy.with_name("intent.yaml").write_text(FACTS)
    service = tmp_path / "service.yaml"
    service.write_text(SERVICE)
    data = report(service, "--policies", policy.parent.parent, "--fail-on", "refused")
    assert [line["outcome"] for line in data["objects"]] == ["refused"]
    assert data["unknownNamespaces"] == ["payments"]
    assert data["objects"][0]["notes"][0].startswith('the labels of namespace "payments" are not')


def test_exempt_namespaces_are_left_alone(tmp_path: Path) -> None:
    manifest = PINNED.replace("payments", "kube-system")
    (tmp_path / "pod.yaml").write_text(manifest)
    data = report(tmp_path, "--fail-on", "refused", "--namespace-labels", "agentpool=pool1")
    (pod,) = data["objects"]
    assert (pod["outcome"], data["unknownNamespaces"]) == ("admitted", [])
    assert pod["notes"] == ['not asked: namespace "kube-system" is exempt']


def test_reviews_are_decided_as_they_are(manifests: Path) -> None:
    review = paths.root() / "testdata" / "review.json"
    data = report(review, manifests, "--fail-on", "changed")
    first = data["objects"][0]
    assert (first["kind"], first["operation"], first["outcome"]) == ("Pod", "CREATE", "changed")


def test_a_review_that_cannot_be_read_is_refused_by_no_intent(tmp_path: Path) -> None:
    (tmp_path / "review.yaml").write_text(
        "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\nrequest: {uid: a, kind: Pod}\n"
    )
    (line,) = report(tmp_path)["objects"]
    assert [finding["intent"] for finding in line["findings"]] == [None]
    assert "cannot tell whether a policy applies" in line["findings"][0]["message"]


def test_a_refusal_that_is_not_enforced_is_a_warning(manifests: Path) -> None:
    Path("lenient.yaml").write_text("enforcement: {node-pool: warn}\n")
    data = report(manifests, "--settings", "lenient.yaml", "--fail-on", "refused")
    assert ("Pod", "pinned", "warned") in outcomes(data)
    assert data["counts"]["refused"] == 0


@pytest.mark.parametrize("between", ["\n", "", "\n\n"])
def test_standard_input_may_be_a_stream_of_json_objects(manifests: Path, between: str) -> None:
    objects = [yaml.safe_load(text) for text in (NAMESPACE, PINNED)]
    stream = between.join(json.dumps(each, indent=2) for each in objects)
    data = report("-", "--fail-on", "refused", stdin=stream)
    assert [(line["kind"], line["outcome"]) for line in data["objects"]] == [
        ("Namespace", "admitted"),
        ("Pod", "refused"),
    ]
    Path("items.json").write_text(stream)
    assert outcomes(report("items.json", "--fail-on", "refused")) == outcomes(data)


def test_standard_input_is_a_file(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{NAMESPACE}---\n{PINNED}"
    data = report("-", "--fail-on", "refused", stdin=text)
    assert [(line["file"], line["line"], line["outcome"]) for line in data["objects"]] == [
        ("stdin", 1, "admitted"),
        ("stdin", 5, "refused"),
    ]
    single = json.loads(run("-", "-o", "json", stdin=text).stdout)
    assert [answer["allowed"] for answer in single] == [True, False]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: [")))
    inputs = request_files.read([Path("-")])
    assert [str(problem) for problem in inputs.unreadable] == [
        "stdin:1: is not valid YAML: while parsing a flow node: expected the node content, but "
        "found '<stream end>'"
    ]


def test_a_file_that_is_named_twice_counts_once(manifests: Path) -> None:
    data = report(manifests / "all.yaml", manifests)
    assert [line["kind"] for line in data["objects"]].count("Deployment") == 1


def test_a_named_file_must_hold_an_object(manifests: Path) -> None:
    result = run(manifests / "all.yaml", manifests / "values.yaml")
    assert result.return_value == 2
    assert "apps/values.yaml:1: holds neither an AdmissionReview nor a manifest" in result.stderr


def test_a_folder_without_objects_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no AdmissionReview and no manifest"):
        run(tmp_path)


def test_other_policies_decide(manifests: Path, tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), folder)
    for module in folder.rglob("*.rego"):
        text = module.read_text()
        module.write_text(text.replace("remove spec.nodeName", "leave out spec.nodeName"))
    data = report(manifests, "--policies", folder)
    assert "leave out spec.nodeName" in data["objects"][2]["findings"][0]["message"]
    single = run(manifests / "all.yaml", "--policies", folder)
    assert "leave out spec.nodeName" in single.stdout


def test_decisions_keep_their_order_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SMALLEST", 2)
    pods = [PLAIN.replace("plain", f"pod-{n}").replace("payments", f"n{n}") for n in range(9)]
    labels = [NAMESPACE.replace("payments", f"n{n}").replace("pool1", f"pool{n}") for n in range(9)]
    (tmp_path / "all.yaml").write_text("---\n".join((*pods, *labels)))
    objects = report(tmp_path)["objects"]
    assert [line["patch"][0]["value"]["agentpool"] for line in objects[:9]] == [
        f"pool{n}" for n in range(9)
    ]


def test_the_kubernetes_client_is_not_loaded_without_a_cluster(manifests: Path) -> None:
    script = (
        "import sys; from fairlead.__main__ import cli\n"
        f"cli.main(['eval', {str(manifests)!r}], standalone_mode=False)\n"
        "assert 'kubernetes' not in sys.modules, 'loaded'"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nobody_is_told_to_wait_for_a_file(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop}\n"
        "spec: {containers: []}\n"
    )
    policies = PolicySet.load(Settings())
    report = gate.check(
        request_files.read([file]),
        policies=policies,
        webhooks=asked.rendered(policies),
        progress=Progress(),
    )
    (finding,) = report.verdicts[0].findings
    assert finding.message == (
        'pod "web": the labels of namespace "shop" are not known: name the file with its '
        "manifest, too, or add --namespace-labels or --live"
    )


def test_the_settings_file_beside_the_manifests_has_to_be_in_force(
    manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, elsewhere = tmp_path / "repository", tmp_path / "elsewhere"
    (repository / ".git").mkdir(parents=True)
    elsewhere.mkdir()
    shutil.copytree(manifests, repository / "apps")
    settings = repository / "fairlead.yaml"
    settings.write_text("contact: the platform team\n")
    monkeypatch.chdir(elsewhere)
    with pytest.raises(UsageError, match="but no settings file is in force: add --settings") as why:
        run(repository / "apps", "--fail-on", "refused")
    assert str(why.value).startswith(f"{settings} is the settings file beside these manifests")
    assert run(repository / "apps", "--settings", settings, "-o", "json").return_value == 0
    monkeypatch.chdir(repository)
    assert "settings: fairlead.yaml" in run("apps", "-o", "json").stderr

"""AdmissionReviews: built as an API server builds them, read from files, and answers applied."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairlead.common.errors import FairleadError, InputError
from fairlead.inputs import manifest_files
from fairlead.kube import admission_reviews

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "payments"},
    "spec": {},
}


def test_a_pod_is_reviewed_in_its_namespace() -> None:
    request = admission_reviews.build(POD)["request"]
    assert request["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["namespace"], request["name"], request["operation"]) == (
        "payments",
        "web",
        "CREATE",
    )
    assert (request["object"], request["oldObject"]) == (POD, None)
    assert "subResource" not in request


def test_every_review_has_a_uid_of_its_own() -> None:
    assert (
        admission_reviews.build(POD)["request"]["uid"]
        != admission_reviews.build(POD)["request"]["uid"]
    )


def test_a_deletion_has_only_an_old_object() -> None:
    request = admission_reviews.build(POD, operation="DELETE")["request"]
    assert (request["object"], request["oldObject"]) == (None, POD)


def test_a_namespace_is_in_itself_and_a_node_in_none() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "payments"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert (
        admission_reviews.build(namespace, namespace="other")["request"]["namespace"] == "payments"
    )
    assert "namespace" not in admission_reviews.build(node, namespace="other")["request"]


def test_an_eviction_is_for_pods() -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    request = admission_reviews.build(eviction, sub_resource="eviction", dry_run=True)["request"]
    assert request["kind"]["group"] == "policy"
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (request["subResource"], request["dryRun"]) == ("eviction", True)


@pytest.mark.parametrize(
    ("kind", "resource"),
    [
        ("Pod", "pods"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
        ("PodExecOptions", "pods"),
    ],
)
def test_kinds_have_their_resources(kind: str, resource: str) -> None:
    assert admission_reviews.plural(kind) == resource


def answer(operations: Any, **response: Any) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"response": {"allowed": True, "patchType": "JSONPatch", "patch": encoded, **response}}


def test_a_patch_is_applied_to_a_copy() -> None:
    patch = [{"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}]
    after = admission_reviews.apply(admission_reviews.patch_of(answer(patch)), POD)
    assert after["spec"] == {"nodeSelector": {"agentpool": "pool1"}}
    assert POD["spec"] == {}


@pytest.mark.parametrize(
    "broken",
    [
        answer([], patch="no base64!"),
        answer([], patch=base64.b64encode(b"{").decode()),
        answer({"op": "add"}),
        answer([], patchType="MergePatch"),
    ],
)
def test_a_patch_that_no_api_server_would_take_is_an_error(broken: dict[str, Any]) -> None:
    with pytest.raises(FairleadError, match="the answer's patch"):
        admission_reviews.patch_of(broken)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/spec/none"},
        {"op": "add", "path": "/none/x", "value": 1},
        {"op": "up", "path": "/a"},
    ],
)
def test_a_patch_that_does_not_apply_is_an_error(operation: dict[str, Any]) -> None:
    with pytest.raises(FairleadError, match="does not apply"):
        admission_reviews.apply([operation], POD)


def read(folder: Path, text: str, name: str = "pod.yaml") -> list[Any]:
    path = folder / name
    path.write_text(text)
    return [document.value for document in manifest_files.read([path]).all_readable()]


def test_json_with_tabs_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, '{\n\t"apiVersion": "v1",\n\t"kind": "Pod"}') == [
        {"apiVersion": "v1", "kind": "Pod"}
    ]


def test_documents_and_the_items_of_a_list_are_read_one_by_one(tmp_path: Path) -> None:
    text = (
        "apiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: List\nitems: [{apiVersion: v1, "
        "kind: B}]\n"
    )
    assert [manifest["kind"] for manifest in read(tmp_path, text)] == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", r":1: holds neither an AdmissionReview nor a manifest"),
        ("kind: Pod\n", "apiVersion is missing"),
        ("apiVersion: v1\nkind: 7\n", ":2: .*kind is missing or no text"),
        ("apiVersion: v1\nkind: Pod\nmetadata: web\n", ":3: metadata: a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 7\n", ":4: metadata.name: text"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: -b\n",
            ":5: metadata.labels: '-b' is not a label",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    a: 7\n",
            ":5: metadata.labels: 7 .*quote it",
        ),
        ("apiVersion: v1\nkind: Pod\nspec: {~: a}\n", ":3: .*the key '~' is not text"),
        ("apiVersion: v1\nkind: Pod\nspec: .inf\n", ":3: .* a number that JSON does not have"),
        ("apiVersion: v1\nkind: Pod\nspec: !!binary a\n", "!!binary is not base64"),
        ("apiVersion: v1\nkind: Pod\nspec: &a [*a]\n", "in the value that it means"),
        (
            "apiVersion: v1\nkind: Pod\nspec: " + "[" * 101 + "]" * 101,
            "nested more than 100 levels deep",
        ),
        ("apiVersion: v1\nkind: List\nitems: []\n", "a List without items"),
        ('{"apiVersion": "v1", "kind": "Po', "not valid JSON"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(tmp_path, text)


def test_lists_in_lists_and_typed_lists_are_taken_apart_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: PodList\n  items:\n"
        "  - metadata: {name: a}\n  - metadata: {name: b}\n- apiVersion: v1\n  kind: Service\n"
    )
    documents = manifest_files.read([path]).all_readable()
    assert [(document.value["kind"], document.line(())) for document in documents] == [
        ("Pod", 7),
        ("Pod", 8),
        ("Service", 9),
    ]
    assert documents[0].value == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_items_of_a_json_list_have_lines_too(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    items = [{"apiVersion": "v1", "kind": kind} for kind in ("Pod", "Service")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1))
    assert [document.line(()) for document in manifest_files.read([path]).all_readable()] == [5, 9]


def test_whatever_has_items_is_a_list_as_it_is_for_kubectl(tmp_path: Path) -> None:
    common = {"apiVersion": "example.com/v1", "kind": "Menu"}
    manifest = {**common, "items": [{"metadata": {"name": "soup"}}]}
    assert read(tmp_path, json.dumps(manifest)) == [{**common, "metadata": {"name": "soup"}}]


def test_the_objects_of_a_folder_are_read_in_the_order_of_their_paths(tmp_path: Path) -> None:
    for name, text in {
        "b/pod.yaml": "apiVersion: v1\nkind: Pod\n---\n# nothing\n---\nhelm: values\n",
        "a.yml": "apiVersion: v1\nkind: Service\n",
        "b/list.json": '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", '
        '"kind": "ConfigMap"}]}',
        "b/package.json": '[{"name": "x"}]',
        "values.yaml": "1: one\n",
        "mkdocs.yaml": "theme: !!python/name:some.module\n",
        "empty.yaml": "",
        "comment.yaml": "# only this\n",
        "readme.md": "kind: {",
        ".hidden/pod.yaml": "a: [",
        ".hidden.yaml": "a: [",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    reading = manifest_files.read([tmp_path])
    assert [
        (str(document.path.relative_to(tmp_path)), document.value["kind"])
        for document in reading.all_readable()
    ] == [("a.yml", "Service"), ("b/list.json", "ConfigMap"), ("b/pod.yaml", "Pod")]
    assert [(path.name, what) for path, what in reading.skipped] == [
        ("comment.yaml", "no Kubernetes object"),
        ("empty.yaml", "no Kubernetes object"),
        ("mkdocs.yaml", "no Kubernetes object"),
        ("values.yaml", "no Kubernetes object"),
        ("package.json", "no Kubernetes object"),
        ("pod.yaml", "no Kubernetes object"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.yaml", "a: 1\nb: [", "a.yaml:2: is not valid YAML"),
        ("a.json", "{", "a.json:1: is not valid JSON"),
        ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", "a.yaml:3: metadata.name"),
    ],
)
def test_a_broken_file_in_a_folder_is_an_error(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        manifest_files.read([tmp_path]).all_readable()


def test_aliases_cannot_make_a_small_file_huge(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(InputError, match="too many values that come from aliases"):
        read(tmp_path, "\n".join(["apiVersion: v1", "kind: Pod", *lines]))


def test_a_review_in_one_line() -> None:
    assert admission_reviews.title(admission_reviews.build(POD)) == "CREATE of Pod payments/web"
    generated = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}
    assert (
        admission_reviews.title(admission_reviews.build(generated, sub_resource="status"))
        == "CREATE of Pod/status default/web-*"
    )
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "payments"}}
    assert (
        admission_reviews.title(admission_reviews.build(namespace, operation="DELETE"))
        == "DELETE of Namespace payments"
    )
    assert admission_reviews.title({"request": {"kind": "Pod", "object": []}}) == "- of - -"
    assert admission_reviews.title([]) == "- of - -"


def test_a_number_of_a_patch_may_be_longer_than_python_reads() -> None:
    digits = "7" * 5_000
    patch = base64.b64encode(
        b'[{"op": "add", "path": "/x", "value": [5, %b]}]' % digits.encode()
    ).decode()
    (operation,) = admission_reviews.patch_of(
        {"response": {"patchType": "JSONPatch", "patch": patch}}
    )
    assert operation["value"] == [5, digits]


def test_a_pipe_in_a_folder_is_an_error_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="is not a file, but a pipe or a device"):
        manifest_files.read([tmp_path]).all_readable()


def test_folders_that_are_links_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.yaml").write_text("{apiVersion: v1, kind: Secret}")
    apps = tmp_path / "apps"
    apps.mkdir()
    for link, target in (("one", "../shared"), ("two", "../shared"), ("loop", ".")):
        (apps / link).symlink_to(target)
    documents = manifest_files.read([apps]).all_readable()
    assert [document.path for document in documents] == [apps / "one" / "a.yaml"]


@pytest.mark.parametrize(
    ("name", "text", "remark"),
    [
        (
            "a.json",
            '{"apiVersion": "v1", "kind": "Pod", "kind": "Service"}',
            "the key 'kind' stands twice in one object, and the last one counts",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: Pod\nkind: Service\n",
            "line 3: the key 'kind' stands here twice (kubectl takes the last): remove one",
        ),
    ],
)
def test_of_a_key_that_stands_twice_the_last_one_counts_as_for_kubectl(
    tmp_path: Path, name: str, text: str, remark: str
) -> None:
    (tmp_path / name).write_text(text)
    (document,) = manifest_files.read([tmp_path / name]).all_readable()
    assert (document.value["kind"], document.remarks) == ("Service", (remark,))

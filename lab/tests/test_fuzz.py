"""Short fuzz runs against a real OPA; each oracle is able to fail."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairlead.common import paths
from fairlead.common.errors import FairleadError, InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.policy import bundles
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.commands.fuzz import command
from lab.fuzz import guard, limits, load, reviews, scoped_requests
from lab.fuzz.client import Response
from lab.fuzz.guard_requests import Request
from lab.fuzz.load_requests import WAYS, Attack
from lab.fuzz.review_bodies import Body
from lab.fuzz.search import Violation

SEED = 1
MIB = 1024 * 1024
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": []},
}
ASSIGN = {"op": "add", "path": "/spec/nodeSelector", "value": {"agentpool": "pool1"}}


def counts(result: dict[str, Any]) -> dict[str, int]:
    return {outcome["outcome"]: outcome["count"] for outcome in result["outcomes"]}


def test_the_guard_lets_through_what_the_contract_lists() -> None:
    result = guard.run(examples=1_500, seed=SEED, progress=Progress())
    assert result["why"] is None, result
    assert result["tried"] >= 1_500
    assert result["rotations"] == 3, "once for each OPA"
    assert counts(result).keys() >= {
        "listed: 200",
        "refused: 401",
        "valid token: 200",
        "in another spelling",
    }


@pytest.mark.parametrize(
    ("hole", "leak"),
    [
        ('allow if input.path == ["v1", "data"]', "v1/data"),
        ('allow if input.path[0] == "health"', "ealth"),
        ('allow if "pretty" in object.keys(input.params)', "pretty"),
        ('allow if startswith(input.headers.Authorization[0], "Basic")', "Basic"),
        ("allow if input.headers.Authorization[1]", "Authorization"),
        ('allow if input.headers["X-Forwarded-For"]', "X-Forwarded-For"),
    ],
)
def test_a_hole_in_the_guard_is_found(hole: str, leak: str) -> None:
    result = guard.run(
        examples=1_500,
        seed=SEED,
        progress=Progress(),
        authz=lambda *tokens: f"{bundles.authz_module(*tokens)}\n{hole}\n",
    )
    assert result["why"]
    assert leak in json.dumps(result["example"])


SCOPED = "opened := scoped_requests[crypto.sha256(input.identity)]"


@pytest.mark.parametrize(
    "hole",
    [
        f"{SCOPED}; some [_, path] in opened; path == input.path",
        f"{SCOPED}; [input.method, input.path] in opened",
        f"{SCOPED}; some [method, path] in opened; method == input.method; "
        "array.slice(input.path, 0, count(path)) == path",
        f"{SCOPED}; some [method, path] in opened; method == input.method; "
        'trim(concat("/", input.path), "/") == concat("/", path)',
    ],
    ids=["other methods", "queries", "paths below", "an encoded slash"],
)
def test_a_scope_that_opens_too_much_is_found(hole: str) -> None:
    result = guard.run(
        examples=1_500,
        seed=SEED,
        progress=Progress(),
        authz=lambda *tokens: f"{bundles.authz_module(*tokens)}\nallow if {{ {hole} }}\n",
    )
    assert "answered without a valid token" in result["why"]
    assert "<placement" in json.dumps(result["example"])


@pytest.mark.parametrize(
    ("value", "method", "target", "expected"),
    [
        ("Bearer <placement>", "POST", "/v1/data/k8s/placement", True),
        ("Bearer <placementbefore>", "POST", "/v1/data/k8s/placement", True),
        ("bearer <placement>", "POST", "/v1/data/k8s/placement", None),
        ("Bearer <placement>", "POST", "/v1/data/k8s/%70lacement", None),
        ("Bearer <placement>", "POST", "/v1/data/k8s%2Fplacement", False),
        ("Bearer <placement>", "POST", "/v1/data/k8s/placement/", False),
        ("Bearer <placement>", "POST", "/v1/data/k8s/placement?pretty", False),
        ("Bearer <placement>", "GET", "/v1/data/k8s/placement", False),
        ("Bearer <placementretired>", "POST", "/v1/data/k8s/placement", False),
        ("Bearer <valid>", "POST", "/v1/data/k8s/placement", False),
        ("Basic <placement>", "POST", "/v1/data/k8s/placement", False),
    ],
)
def test_what_a_scope_opens(value: str, method: str, target: str, expected: bool | None) -> None:
    request = Request(method, target, (("Authorization", value),))
    assert scoped_requests.opened(request) is expected


def test_a_guard_that_refuses_the_api_server_is_found() -> None:
    def deaf(tokens: list[str], scoped: bundles.ScopedTokens) -> str:
        return bundles.authz_module(tokens, scoped).replace('["POST", [""]]', '["POST", ["x"]]')

    result = guard.run(examples=1_500, seed=SEED, progress=Progress(), authz=deaf)
    assert "the contract lists this request" in result["why"]
    assert (result["example"]["method"], result["example"]["target"][:2]) in {
        ("POST", "/"),
        ("POST", "/?"),
    }


def test_a_token_in_the_log_is_found() -> None:
    def chatty(tokens: list[str], scoped: bundles.ScopedTokens) -> str:
        authz = bundles.authz_module(tokens, scoped)
        return authz + "\nallow if {\n\tprint(input.identity)\n\tfalse\n}\n"

    result = guard.run(examples=500, seed=SEED, progress=Progress(), authz=chatty)
    assert "a token stands in OPA's log" in result["why"]
    assert "<valid>" in result["why"]


@pytest.mark.parametrize(
    ("method", "target", "listed", "equivalent"),
    [
        ("POST", "/", True, True),
        ("POST", "/?timeout=30s", True, True),
        ("GET", "/health/ready", True, True),
        ("GET", "/%68ealth", False, True),
        ("GET", "https://any.example/health", False, True),
        ("POST", "/?&timeout=5%73", False, True),
        ("GET", "/health?;", False, True),
        ("GET", "/", False, False),
        ("post", "/", False, False),
        ("POST", "//", False, False),
        ("POST", "/?timeout=100s", False, False),
        ("POST", "/?timeout=5s&timeout=5s", False, False),
        ("POST", "/?timeout=5s%26pretty=true", False, False),
        ("GET", "/health?timeout=5s", False, False),
        ("GET", "/health/", False, False),
        ("GET", "/health%2Fready", False, False),
        ("GET", "/v1/../health", False, False),
        ("GET", "health", False, False),
        ("GET", "/v1/data", False, False),
    ],
)
def test_what_the_contract_lists_in_which_spelling(
    method: str, target: str, listed: bool, equivalent: bool
) -> None:
    assert (guard.listed(method, target), guard.equivalent(method, target)) == (listed, equivalent)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((), False),
        (("Bearer <valid>",), True),
        (("Bearer <valid>", "Bearer x"), True),
        (("Bearer x", "Bearer <valid>"), False),
        (("bearer  <valid>",), None),
        (("Basic <valid>",), False),
        (("Bearer <retired>",), False),
    ],
)
def test_which_credentials_count(values: tuple[str, ...], expected: bool | None) -> None:
    request = Request("GET", "/v1/data", tuple(("authorization", value) for value in values))
    assert guard.authorized(request) is expected


def test_malformed_reviews_are_answered_well() -> None:
    result = reviews.run(examples=1_500, seed=SEED, progress=Progress())
    assert result["why"] is None, result
    assert result["tried"] >= 1_500
    assert counts(result).keys() >= {
        "allowed: pod placed",
        "denied: pod",
        "denied: not readable",
        "allowed: no pod",
    }


def test_policies_that_only_warn_are_found() -> None:
    lax = PolicySet.load(Settings.model_validate({"enforcement": "warn"})).bundle
    result = reviews.run(examples=1_500, seed=SEED, progress=Progress(), spoil=lambda _: lax)
    assert result["why"]
    assert result["example"]


ALLOWS_ALL = """package system

main := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"response": {"uid": object.get(input, ["request", "uid"], ""), "allowed": true},
}

admitted_by_all := true
"""


def test_policies_that_let_all_pods_through_fail_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(paths.root() / "policies", folder)
    (folder / "main.rego").write_text(ALLOWS_ALL)
    arguments = [
        "reviews",
        "--examples",
        "10",
        "--seed",
        "7",
        "-o",
        "json",
        "--policies",
        str(folder),
    ]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, FairleadError)
    assert done.exception.exit_code == 1
    assert "allowed with nodeSelector None" in str(done.exception)
    assert "`--seed 7` repeats it" in str(done.exception)
    assert json.loads(done.stdout)[0]["fuzz"] == "reviews"


def test_the_command_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("lab.fuzz")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    done = CliRunner().invoke(command, ["guard", "--examples", "1"])
    assert isinstance(done.exception, UsageError)
    assert "fuzzing needs hypothesis" in str(done.exception)


def test_attacks_leave_opa_within_its_memory_and_others_served() -> None:
    result = load.on_opa(examples=10, seed=SEED, progress=Progress())
    assert result["why"] is None, result
    assert result["tried"] >= 10
    assert 0 < result["memory"]["opa"] < result["limits"]["opa"]["bytes"]
    (bystander,) = result["bystanders"]
    assert bystander["asked"] > 0
    assert bystander["refused"] == 0


def test_limits_that_let_an_attack_succeed_are_found() -> None:
    """A review of 3 MiB, compressed or not, for an OPA with 512 MiB, which 16 such requests once
    ended.
    """
    lax = [f"--set=server.decoding.{key}={3 * MIB}" for key in ("max_length", "gzip.max_length")]
    result = load.on_opa(
        examples=10,
        seed=SEED,
        progress=Progress(),
        flags=lax,
        limited=False,
        memory={"opa": 512 * MIB},
    )
    assert "limit of 512 MiB" in result["why"], result
    assert result["memory"]["opa"] >= 512 * MIB
    assert "review" in result["example"]["way"]


def test_past_the_plugin_an_attack_succeeds() -> None:
    result = load.on_opa(
        examples=10, seed=SEED, progress=Progress(), limited=False, memory={"opa": 512 * MIB}
    )
    assert "limit of 512 MiB" in result["why"], result
    assert result["example"]["way"] == "review"


def test_a_bystander_who_is_refused_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(paths.root() / "policies", folder)
    (folder / "main.rego").write_text(ALLOWS_ALL)
    result = load.on_opa(examples=1, seed=SEED, progress=Progress(), policies=folder)
    assert "reviews of OPA: 20 refused: the sample review is not placed" in result["why"]


def test_what_exceeds_its_limit_is_ended_where_this_machine_can() -> None:
    code = "import sys; sys.stdin.read(1); sys.stdout.write(str(len(bytearray(b'x' * %d))))"
    for size, ended in ((16, False), (256, True)):
        with closing(limits.MemoryLimit("test", 96 * MIB)) as limit:
            argv = [sys.executable, "-c", code % (size * MIB)]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                limit.hold(process.pid)
                written, _ = process.communicate(b"x")
            assert limit.kills == (ended and limit.enforced)
            assert (written == b"") == (ended and limit.enforced)


def test_limits_are_those_of_the_manifests() -> None:
    objects = manifests.render_objects(PolicySet.load(Settings()), Credentials.fresh())
    deployment = next(manifest for manifest in objects if manifest["kind"] == "Deployment")
    shown = {
        container["name"]: container["resources"]["limits"]
        for container in deployment["spec"]["template"]["spec"]["containers"]
    }
    assert {
        name: {"memory": f"{size // MIB}Mi"} for name, size in limits.deployed(Settings()).items()
    } == shown


@pytest.mark.parametrize("way", WAYS)
def test_an_attack_is_as_large_as_it_says_and_json(way: str) -> None:
    for shape in WAYS[way].shapes:
        if "deep" in shape:  # deeper than Python's decoder goes
            continue
        content = Attack(way, shape, 500, 1).body()
        if way.startswith("packed"):
            content = gzip.decompress(content)
        assert 450_000 < len(content) < 513_000
        assert json.loads(content)


@pytest.mark.parametrize("kind", [Request, Body, Attack])
@pytest.mark.parametrize(
    "text", ['{"verb": "GET"}', '{"way": "x", "shape": "env", "size": 1, "clients": 1}']
)
def test_a_kept_example_that_is_none_is_named(
    tmp_path: Path, kind: type[Request] | type[Body] | type[Attack], text: str
) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError, match=r"x\.json: is not an? (request|body|attack)"):
        kind.load(tmp_path / "x.json")


def test_an_attack_is_read_as_it_is_printed(tmp_path: Path) -> None:
    attack = Attack("pod", "env", 1300, 6)
    (tmp_path / "x.json").write_text(json.dumps(attack.document()))
    assert Attack.load(tmp_path / "x.json") == attack


def test_a_body_is_read_as_it_is_printed(tmp_path: Path) -> None:
    for content in (b"{}", b"\xff"):
        written = Body(content, "text/plain", "gzip")
        (tmp_path / "x.json").write_text(json.dumps(written.document()))
        assert Body.load(tmp_path / "x.json") == written


def body(**request: Any) -> Body:
    asked = {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "kind": "Pod"},
        "namespace": "payments",
        "object": POD,
    }
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": asked | request,
    }
    return Body(json.dumps(review).encode())


def answer(*, version: str = "v1", patch: list[Any] | None = None, **response: Any) -> Response:
    full: dict[str, Any] = {"uid": "1", "allowed": True, **response}
    if patch is not None:
        full |= {
            "patchType": "JSONPatch",
            "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
        }
    review = {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": full,
    }
    return Response(200, b"", json.dumps(review).encode())


DENIED: dict[str, Any] = {"allowed": False, "status": {"code": 403, "message": "no"}}


def pod(**spec: Any) -> dict[str, Any]:
    return {**POD, "spec": spec}


FREED = body(operation="UPDATE", oldObject=pod(schedulingGates=[{"name": "a"}]), object=pod())


def daemon_set(kind: str = "DaemonSet", **more: Any) -> Body:
    template = {"metadata": {"annotations": {"a": "b"}}, "spec": {"tolerations": [{"key": "gpu"}]}}
    made = {"metadata": {"name": "agent"}, "spec": {"template": template}}
    return body(**{"kind": {"group": "apps", "kind": kind}, "object": made, **more})


def change(path: str, value: Any = None) -> dict[str, Any]:
    """An operation below a template; a removal where there is no value."""
    path = f"/spec/template/{path}"
    return (
        {"op": "remove", "path": path}
        if value is None
        else {"op": "add", "path": path, "value": value}
    )


SELECTOR = change("spec/nodeSelector", {"agentpool": "pool1"})
NOTE = change("metadata/annotations/fairlead.dev~1assigned", "{}")


@pytest.mark.parametrize(
    ("asked", "answered", "outcome"),
    [
        (body(), answer(patch=[ASSIGN]), "allowed: pod placed"),
        (body(), answer(**DENIED), "denied: pod"),
        (body(namespace="playground"), answer(), "allowed: pod of no pool"),
        (body(kind={"group": "", "kind": "Service"}), answer(), "allowed: no pod"),
        (body(operation="UPDATE", oldObject=POD), answer(), "allowed: pod's update"),
        (FREED, answer(patch=[ASSIGN]), "allowed: pod placed"),
        (FREED, answer(**DENIED), "denied: pod's update"),
        (
            body(
                operation="UPDATE",
                oldObject=pod(schedulingGates=[{}], nodeSelector={"agentpool": "pool2"}),
                object=pod(nodeSelector={"agentpool": "pool2"}),
            ),
            answer(),
            "allowed: pod's update",
        ),
        (daemon_set(), answer(patch=[SELECTOR, NOTE]), "allowed: no pod, patched"),
        (
            daemon_set(namespace="playground"),
            answer(patch=[change("spec/tolerations")]),
            "allowed: no pod, patched",
        ),
        (body(uid=7), answer(uid="", **DENIED), "denied: not readable"),
        (Body(b"{"), Response(400, b"", b"{}"), "400: not JSON, or too large"),
        (Body(b"x", encoding="gzip"), None, "no answer to gzip that is none"),
    ],
)
def test_good_answers_pass(asked: Body, answered: Response | None, outcome: str) -> None:
    assert reviews.judge(asked, answered, Settings()) == outcome


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "gpu"}, False),
        ({"key": "spot", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "tolerationSeconds": 5}, False),
        ("gpu", False),
    ],
)
def test_a_wider_toleration_is_as_good_as_the_pools(toleration: Any, covers: bool) -> None:
    own = pod(nodeSelector={"agentpool": "pool1", "disk": "ssd"}, tolerations=[toleration])
    if covers:
        assert (
            reviews.judge(body(object=own), answer(), reviews.PROFILES["pools"])
            == "allowed: pod placed"
        )
        return
    with pytest.raises(Violation, match="without the pool's tolerations"):
        reviews.judge(body(object=own), answer(), reviews.PROFILES["pools"])


@pytest.mark.parametrize(
    ("asked", "answered", "why"),
    [
        (body(), answer(), "allowed with nodeSelector None"),
        (
            body(object=pod(nodeSelector={"agentpool": "pool2"})),
            answer(),
            "allowed with nodeSelector",
        ),
        (body(object=pod(nodeName="n1")), answer(patch=[ASSIGN]), "nodeName"),
        (body(object={}), answer(), "without a spec"),
        (body(namespace="new"), answer(), "which nobody knows"),
        (body(namespace="playground"), answer(patch=[ASSIGN]), "a namespace without a pool"),
        (
            body(),
            answer(patch=[ASSIGN, {"op": "remove", "path": "/metadata/name"}]),
            "changes more of the pod",
        ),
        (body(), answer(patch=[{**ASSIGN, "path": "/nowhere/spec"}]), "does not apply"),
        (
            body(operation="UPDATE", oldObject=POD),
            answer(patch=[ASSIGN]),
            "an update of a pod is patched",
        ),
        (
            body(operation="UPDATE", oldObject=POD, object=pod(nodeSelector={"zone": "a"})),
            answer(),
            "leaves the pool",
        ),
        (FREED, answer(), "allowed with nodeSelector None"),
        (daemon_set("Deployment"), answer(patch=[SELECTOR]), "neither a pod nor a DaemonSet"),
        (daemon_set(), answer(patch=[NOTE]), "allowed with nodeSelector None"),
        (daemon_set(namespace="playground"), answer(patch=[SELECTOR]), "adds to a template"),
        *(
            (daemon_set(), answer(patch=[SELECTOR, operation]), "changes more than the template's")
            for operation in (
                change("spec/hostNetwork", True),
                change("metadata/annotations/a"),
                change("metadata/labels", {"a": "b"}),
                {"op": "remove", "path": "/metadata/name"},
                {"op": "add", "path": "/spec/minReadySeconds", "value": 1},
            )
        ),
        (body(operation="DELETE"), answer(patch=[ASSIGN]), "what goes, is patched"),
        (body(operation="create"), answer(), "does not say what is asked"),
        (body(uid=7), answer(uid=""), "does not say what is asked"),
        (body(), answer(patch=[ASSIGN], uid="2"), "uid"),
        (body(), answer(version="v1beta1", **DENIED), "apiVersion"),
        (body(), answer(allowed="yes"), "not a truth value"),
        (body(), answer(allowed=False), "denies without a message"),
        (body(), answer(patch=[ASSIGN], **DENIED), "a patch for what it denies"),
        (body(), answer(patch=[ASSIGN], patched=True), "unknown fields"),
        (body(), answer(patch=[ASSIGN], warnings=[1]), "warnings"),
        (body(), Response(200, b"", b"{}"), "something else than a review"),
        (body(), Response(200, b"", b"<html>"), "not JSON"),
        (body(), Response(400, b"", b"{}"), "JSON is answered with 400"),
        (body(), Response(500, b"", b"number too big"), "answered with 500"),
        (body(), Response(404, b"", b"{}"), "answered with 404"),
        (body(), None, "without an answer"),
    ],
)
def test_bad_answers_do_not(asked: Body, answered: Response | None, why: str) -> None:
    with pytest.raises(Violation, match=why):
        reviews.judge(asked, answered, Settings())

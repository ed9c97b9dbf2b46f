"""Reviews of PlacementPolicies before they are stored, with the real program `opa`."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from sync_world import PLACEMENT, POLICIES, make_config_map, make_policy

from fairlead.opa.compiler import Compiler
from fairlead.programs import toolchain
from fairlead.sync.desired import Desired
from fairlead.sync.placement_policy_reviews import Reviews, Unreadable
from fairlead.sync.plans import InForce

LIBRARY = "package lib\n\ndouble(x) := 2 * x\n"
NESTED = "package deep\n\nx := " + "[" * 60_000 + "]" * 60_000


class World:
    """What the cluster has and OPA holds, and the reviews for it."""

    def __init__(self) -> None:
        self.desired = Desired([POLICIES, PLACEMENT], namespace_labels=[])
        self.desired.replace(POLICIES, [])
        self.desired.replace(PLACEMENT, [])
        self.policies: dict[str, str] = {}
        self.known = True
        self.limits: dict[str, Any] = {}
        self.program = toolchain.ensure(["opa"])["opa"]

    def hold(self, config_maps: dict[str, str], *policies: dict[str, Any]) -> None:
        """These ConfigMaps, name -> Rego, and these PlacementPolicies are in the cluster, and in
        force.
        """
        maps = [make_config_map(name, {"a.rego": text}) for name, text in config_maps.items()]
        self.desired.replace(POLICIES, maps)
        self.desired.replace(PLACEMENT, policies)
        self.policies = {id_: text for (_, id_), text in self.desired.policies().texts.items()}

    def in_force(self) -> InForce | None:
        accepted: dict[Any, str] = {("policy", id_): text for id_, text in self.policies.items()}
        return InForce(self.policies, accepted, frozenset()) if self.known else None

    def compiler(self) -> Compiler:
        return Compiler(self.program, **self.limits)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        reviews = Reviews(
            self.desired,
            self.in_force,
            self.compiler,
            system="fairlead/fairlead-policies",
            replicated=[["kubernetes", "namespaces"]],
        )
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        body = json.dumps({**review, "request": {"uid": "u", **request}}).encode()
        answer = reviews.answer(body)
        assert {key: answer[key] for key in review} == review
        response = dict(answer["response"])
        assert response.pop("uid") == "u"
        return response

    def create(self, name: str, rego: str, **parameters: Any) -> dict[str, Any]:
        policy = make_policy(name, "12:00", rego, **parameters)
        return self.answer({"operation": "CREATE", "object": policy, "dryRun": True})


@pytest.fixture
def world() -> World:
    return World()


def refusal(response: dict[str, Any]) -> str:
    assert response["allowed"] is False
    return str(response["status"]["message"])


def test_a_policy_that_compiles_with_those_in_force_is_let_in(world: World) -> None:
    world.hold({"lib": LIBRARY})
    text = "package teams\n\ndefault parameters := {}\n\nx := data.lib.double(parameters.n)\n"
    assert world.create("teams", text, n=2) == {"allowed": True}


@pytest.mark.parametrize(
    ("rego", "words"),
    [
        ("package bad\n\nx := unknown(1)\n", "line 3: undefined function unknown"),
        ("package bad\n\nx := data.lib.double(1, 2, 3)\n", "line 3: "),
        ("package bad\n\nx := {", "line 3: "),
        ("package bad\n\nallow { true }\n", "line 3: "),
        (NESTED, "line 3: max parsing recursion depth exceeded"),
        ("package system\nmain := 1", "line 1: rules of the package system"),
        ('package system["authz"]\nallow := true', "system.authz come from OPA's own file"),
        ("package kubernetes\nnamespaces := {}", "would hide what is replicated"),
        ("package fairlead_sync\ninstance := 1", "would hide"),
        ("package fairlead_confirmed\nat := 1", "would hide"),
        (
            "package placement.team\nx := 1",
            "line 1: package placement would hide the data that Fairlead reads at data.placement: "
            "choose another package",
        ),
        ("package placement", "would hide the data that Fairlead reads"),
        ("package inventory\nx := 1", "would hide the data that Fairlead reads"),
        (
            "package fairlead.placement\nclusters := {}",
            "line 1: rules at data.fairlead.placement would hide what is replicated there: "
            "choose another package",
        ),
        ("package fairlead.team\nx := 1", "rules at data.fairlead would hide"),
        ("package x\n#" + "x" * 200_000, "more than 200,000 characters"),
    ],
)
def test_what_would_not_be_loaded_is_refused_with_its_line(
    world: World, rego: str, words: str
) -> None:
    world.hold({"lib": LIBRARY})
    message = refusal(world.create("bad", rego))
    assert message.startswith("PlacementPolicy bad: ")
    assert words in message
    assert "/tmp" not in message  # noqa: S108 - no folder of this machine


def test_a_change_that_others_cannot_be_compiled_with_is_refused_and_names_them(
    world: World,
) -> None:
    before = make_policy("lib", "10:00", LIBRARY)
    world.hold({"user": "package user\nx := data.lib.double(1)"}, before)
    after = make_policy("lib", "10:00", "package lib\n\ntriple(x) := 3 * x\n")
    request = {"operation": "UPDATE", "object": after, "oldObject": before}
    assert "fairlead/user/a.rego:2: " in refusal(world.answer(request))


def test_a_policy_that_is_replaced_does_not_stand_in_its_own_way(world: World) -> None:
    before = make_policy("teams", "10:00", "package teams\ndefault x := 1")
    world.hold({}, before)
    after = make_policy("teams", "10:00", "package teams\ndefault x := 2")
    request = {"operation": "UPDATE", "object": after, "oldObject": before}
    assert world.answer(request) == {"allowed": True}


def test_a_policy_may_use_one_that_was_stored_a_moment_ago(world: World) -> None:
    world.desired.replace(PLACEMENT, [make_policy("lib", "10:00", LIBRARY)])
    user = "package user\nx := data.lib.double(1)"
    assert world.create("user", user) == {"allowed": True}


def test_a_package_is_free_as_soon_as_its_policy_is_gone_or_has_another_one(world: World) -> None:
    text = "package teams\ndefault x := 1"
    before = make_policy("teams", "10:00", text)
    world.hold({}, before)
    world.desired.replace(PLACEMENT, [])
    assert world.create("next", text) == {"allowed": True}
    moved = make_policy("teams", "10:00", "package elsewhere\ndefault x := 1")
    world.desired.replace(PLACEMENT, [moved])
    assert world.create("next", text)["allowed"]


@pytest.mark.parametrize("spelling", ["# METADATA", "#METADATA", "# \u00a0METADATA"])
def test_no_schema_is_fetched_from_the_network(world: World, spelling: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schemas = f'# scope: package\n# schemas:\n#   - input: {{"$ref": "{url}"}}'
        text = f"{spelling}\n{schemas}\npackage x\n\ny := input.z\n"
        assert world.create("x", text) == {"allowed": True}
        with pytest.raises(TimeoutError):
            server.accept()


def test_who_claims_anothers_package_is_warned(world: World) -> None:
    world.hold({}, make_policy("older", "10:00", "package teams\ndefault x := 1"))
    response = world.create("younger", "package teams.a\ndefault x := 2")
    assert response["allowed"]
    (warning,) = response["warnings"]
    assert "package teams.a belongs to PlacementPolicy older, which stays in force" in warning
    assert "line 2: " in refusal(world.create("younger", "package teams\nx := unknown(1)"))


def test_what_does_not_change_the_spec_needs_no_check(world: World) -> None:
    world.known = False
    bad = make_policy("bad", "10:00", "package bad\nx := y")
    for request in (
        {"operation": "UPDATE", "object": bad, "oldObject": bad},
        {"operation": "UPDATE", "object": bad, "oldObject": {}, "subResource": "status"},
        {"operation": "DELETE", "object": None, "oldObject": bad},
    ):
        assert world.answer(request) == {"allowed": True}


def test_nothing_is_stored_while_it_cannot_be_checked(world: World) -> None:
    world.known = False
    assert "try again" in refusal(world.create("x", "package x"))
    world.known, world.program = True, Path("/no/opa")
    assert "/no/opa cannot be started" in refusal(world.create("x", "package x"))


@pytest.mark.parametrize(
    ("limits", "words"), [({"timeout": 0.0}, "within 0 s"), ({"memory": 48}, "48 MiB")]
)
def test_a_policy_that_takes_too_much_is_refused(
    world: World, limits: dict[str, Any], words: str
) -> None:
    world.limits = limits
    message = refusal(world.create("deep", NESTED))
    assert words in message
    assert "split it" in message


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b'{"apiVersion": "admission.k8s.io/v1", "request": {"uid": 1}}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}',
    ],
)
def test_what_is_no_review_gets_no_answer(world: World, body: bytes) -> None:
    reviews = Reviews(world.desired, world.in_force, world.compiler, system=None, replicated=[])
    with pytest.raises(Unreadable):
        reviews.answer(body)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {"metadata": {"name": 1}, "spec": {"rego": "x"}},
        {"metadata": {"name": "x"}, "spec": {"rego": []}},
        {"metadata": {"name": "x", "generation": "x"}, "spec": {"rego": "package x"}},
    ],
)
def test_an_object_of_another_form_gets_no_answer(world: World, value: Any) -> None:
    with pytest.raises(Unreadable):
        world.answer({"operation": "CREATE", "object": value})

"""Engines in pairs: which ones there are, what is deployed for the second one, and that it decides
nothing."""

from __future__ import annotations

from typing import Any

import pytest
from rendering import render

from fairlead.common.errors import FairleadError, UsageError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests, shadowing, sidecars
from fairlead.deployment.credentials import SHADOW_NAMES, Credentials, Tls
from fairlead.deployment.names import (
    OBJECTS_ANNOTATION,
    POLICIES,
    SHADOW,
    SHADOW_WEBHOOKS,
    WEBHOOKS,
)
from fairlead.deployment.shadowing import Engines, Pair
from fairlead.engines.native import record
from fairlead.policy import bundles
from fairlead.policy.bundles import Bundle
from fairlead.settings.models import Settings

PAIRS = ("opa,cel", "python,cel", "cel,opa", "cel,python")
Objects = dict[tuple[str, str], dict[str, Any]]


def deployed(engines: str) -> tuple[record.Record, Objects]:
    """The record of two engines, and the objects of the one with pods, by kind and name."""
    named = Engines.parse(engines)
    sidecar = sidecars.SERVE if named.asked == "python" else sidecars.SYNC
    settings = Settings()
    pair, new = record.paired(named, sidecar, settings, None, progress=Progress())
    credentials = Credentials.of("token", Tls.fresh(), Tls.fresh(names=SHADOW_NAMES))
    rendered = manifests.render_objects(
        settings, Bundle(new.manifest["data"]), credentials, sidecar=sidecar, pair=pair
    )
    return new, {(each["kind"], each["metadata"]["name"]): each for each in rendered}


@pytest.fixture(scope="module", params=PAIRS)
def both(request: pytest.FixtureRequest) -> tuple[str, record.Record, Objects]:
    return request.param, *deployed(request.param)


@pytest.mark.parametrize("text", ["opa", "cel", "python", *PAIRS])
def test_engines_that_a_cluster_can_have(text: str) -> None:
    engines = Engines.parse(text)
    assert str(engines) == text
    assert Engines.of({"metadata": {"annotations": engines.annotations}}) == engines
    assert engines.asked in (None, "opa", "python")
    assert (engines.asked is None) == (text == "cel")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opa,python", "both need the Deployment opa"),
        ("python,opa", "name cel as one of two engines"),
        ("cel,cel", "two different ones"),
        ("opa,cel,python", "name one engine, or two"),
        ("opa,", "'' is no engine"),
        ("kyverno", "'kyverno' is no engine that a cluster can have"),
    ],
)
def test_other_pairs_are_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Engines.parse(text)


def test_only_the_engine_that_enforces_is_asked_with_an_effect(
    both: tuple[str, record.Record, Objects],
) -> None:
    engines, _, objects = both
    asked = Engines.parse(engines).enforcing in shadowing.ASKED
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert ((kind, WEBHOOKS) in objects) == asked
    sizes = [name for kind, name in objects if name.endswith("-size") and "Policy" in kind]
    assert bool(sizes) == (Engines.parse(engines).enforcing == "python")
    assert ("Deployment", "opa") in objects


def test_the_webhooks_that_compare_come_first_and_nobody_waits_for_them(
    both: tuple[str, record.Record, Objects],
) -> None:
    _, _, objects = both
    assert SHADOW_WEBHOOKS < WEBHOOKS
    webhooks = objects["MutatingWebhookConfiguration", SHADOW_WEBHOOKS]["webhooks"]
    # No proxy counts before `fairlead shadow`.
    mutating = render(sidecar=sidecars.SERVE)["MutatingWebhookConfiguration"]
    same = ("name", "rules", "namespaceSelector", "matchConditions", "matchPolicy")
    for webhook in webhooks:
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["timeoutSeconds"] == 1
        assert webhook["sideEffects"] == "None"
        assert webhook["reinvocationPolicy"] == "Never"
        assert webhook["clientConfig"]["service"]["name"] == SHADOW
    for expected in mutating["webhooks"]:
        (found,) = [each for each in webhooks if each["name"] == expected["name"]]
        assert {key: found.get(key) for key in same} == {key: expected.get(key) for key in same}
        path = expected["clientConfig"]["service"]["path"]
        assert found["clientConfig"]["service"]["path"] == path


def test_what_compares_may_only_read_and_write_its_report(
    both: tuple[str, record.Record, Objects],
) -> None:
    _, _, objects = both
    rules = [*objects["Role", SHADOW]["rules"], *objects["ClusterRole", SHADOW]["rules"]]
    writing = [rule for rule in rules if not {*rule["verbs"]} <= {"get", "list", "watch"}]
    assert [(rule["resources"], rule["resourceNames"], rule["verbs"]) for rule in writing] == [
        (["configmaps"], [SHADOW], ["get", "patch"])
    ]
    assert not [rule for rule in rules if "secrets" in rule["resources"]]
    container = objects["Deployment", SHADOW]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"][0] == "shadow"
    assert "data" not in objects["ConfigMap", SHADOW]


def test_all_its_objects_are_deleted_with_it(both: tuple[str, record.Record, Objects]) -> None:
    engines, _, objects = both
    sidecar = sidecars.SERVE if "python" in engines else sidecars.SYNC
    single = manifests.render_objects(
        Settings(), bundles.bundle(Settings()), Credentials.fresh(), sidecar=sidecar
    )
    alone = {(each["kind"], each["metadata"]["name"]) for each in single}
    deleted = {(kind, name) for _, kind, name, _ in shadowing.SERVER_OBJECTS}
    assert objects.keys() - alone == deleted
    for _, kind, name, namespace in shadowing.SERVER_OBJECTS:
        assert objects[kind, name]["metadata"].get("namespace") == namespace


def test_the_record_has_both_engines_and_is_read_as_it_was_made(
    both: tuple[str, record.Record, Objects],
) -> None:
    engines, new, objects = both
    assert objects["ConfigMap", POLICIES] == new.manifest
    assert str(new.engines) == engines
    again = record.read(
        dict(new.manifest), sidecars.SERVE if "python" in engines else sidecars.SYNC
    )
    assert (again.manifest, again.objects) == (new.manifest, new.objects)
    # OPA's sidecars load whatever is in the data.
    assert all(key.endswith((".rego", ".python.py")) for key in new.manifest["data"])


def test_what_the_shadow_does_in_cel_has_no_effect_and_can_be_put_back() -> None:
    new, _ = deployed("opa,cel")
    kinds = [each["kind"] for each in new.shadow]
    assert "MutatingAdmissionPolicyBinding" not in kinds
    for each in new.shadow:
        if each["kind"] == "ValidatingAdmissionPolicyBinding":
            assert each["spec"]["validationActions"] == ["Audit"]
            assert each["spec"]["paramRef"]["parameterNotFoundAction"] == "Allow"
        if each["kind"].endswith("AdmissionPolicy"):
            assert each["spec"]["failurePolicy"] == "Ignore"
    live = {(each["kind"], each["metadata"]["name"]): each for each in new.shadow}
    for each in new.native:
        present = live.get((each["kind"], each["metadata"]["name"]))
        assert shadowing.with_effect(each, present) == each


def test_other_objects_of_cel_make_another_revision() -> None:
    bundle = bundles.bundle(Settings())
    engines = Engines.parse("opa,cel")
    revisions = {Pair(engines, text).marked(bundle).revision for text in ("a: 1\n", "a: 2\n")}
    assert len(revisions | {bundle.revision}) == 3


@pytest.mark.parametrize("text", [None, "", "no base64", "QUJD"])
def test_a_damaged_record_is_told(text: str | None) -> None:
    annotations = {**Engines.parse("opa,cel").annotations}
    if text is not None:
        annotations[OBJECTS_ANNOTATION] = text
    with pytest.raises(FairleadError, match="cannot be read: run `fairlead deploy`"):
        Pair.of({"metadata": {"annotations": annotations}})


def test_a_rollback_starts_no_shadow_and_keeps_the_one_that_is_deployed() -> None:
    new, _ = deployed("opa,cel")
    manifest = dict(new.manifest)
    assert shadowing.same_shadow(manifest, manifest) == manifest
    single: dict[str, Any] = {"metadata": {"annotations": {}}}
    without = shadowing.same_shadow(manifest, single)
    assert Engines.of(without) == Engines("opa")
    assert OBJECTS_ANNOTATION not in without["metadata"]["annotations"]
    enforcing, _ = deployed("cel,opa")
    cel = shadowing.same_shadow(enforcing.manifest, {"metadata": {"annotations": {}}})
    assert Engines.of(cel) == Engines("cel")
    assert record.read(cel).native == enforcing.native

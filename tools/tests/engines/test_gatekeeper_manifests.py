"""The manifests of the engine gatekeeper. integration/tests/test_gatekeeper_controller.py puts them
in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead import engines
from fairlead.cli.operations import render
from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.engines.gatekeeper import definition, installation, manifests, modules
from fairlead.opa import cli
from fairlead.policy import carried, cases, new_policy
from fairlead.policy.bundles import Bundle
from fairlead.policy.instances import Instance
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab.engines.gatekeeper import inexpressible

LIMITS: dict[str, Any] = {"parameters": {"ranges": [{"min_replicas": 3, "max_replicas": 10}]}}
POOLS: dict[str, Any] = {
    "gpu": {
        "nodeSelector": {"hardware": "gpu", "example.com/disk": "ssd"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    },
    "Cheap_1": {},
}
SIDECAR: dict[str, Any] = {
    "container": {"name": "mesh", "image": "mesh:1"},
    "volumes": [{"name": "run", "emptyDir": {}}],
    "position": "last",
    "on_conflict": "refuse",
}


def objects(**settings: Any) -> list[dict[str, Any]]:
    given = {"pools": POOLS, **settings}
    return engines.render("gatekeeper", PolicySet.load(Settings.model_validate(given)))


def of_kind(rendered: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in rendered if each["kind"] == kind]


def every_intent() -> tuple[Bundle, tuple[Instance, ...]]:
    policies = PolicySet.examples(Settings())
    return policies.bundle, policies.active


def test_the_same_settings_give_the_same_objects() -> None:
    intents = {"replica-limits": LIMITS, "sidecar-injection": {"parameters": SIDECAR}}
    assert objects(intents=intents) == objects(intents=intents)


def test_a_template_has_the_modules_of_the_policies_themselves() -> None:
    bundle, active = every_intent()
    texts = {
        carried.without_facts(text)
        for key, text in bundle.modules.items()
        if key.split(".")[0] not in modules._ADAPTED
    }
    adapted = modules._ADAPTED
    assert len(active) >= 7
    for instance in active:
        code = modules.of(instance.intent, bundle)
        assert bool(code.unavailable) == (instance.name == "federated-placement")
        own = 0
        for library in code.libraries:
            package = modules._package(library)
            assert package.startswith(f"{modules.LIBRARY}.")
            if package.removeprefix(f"{modules.LIBRARY}.") in adapted:
                continue
            back = library.replace(f"package {modules.LIBRARY}.", "package ")
            back = back.replace(f"data.{modules.LIBRARY}.", "data.")
            assert back in texts
            own += package == f"{modules.LIBRARY}.{instance.intent.package}"
        assert own >= 1


def test_the_modules_of_a_template_compile_in_strict_mode(tmp_path: Path) -> None:
    bundle, active = every_intent()
    for instance in active:
        code = modules.of(instance.intent, bundle)
        folder = tmp_path / instance.name
        folder.mkdir()
        for number, text in enumerate([code.entry, *code.libraries]):
            (folder / f"{number}.rego").write_text(text)
        cli.check(folder, paths.root() / "tools" / "schemas")


def test_there_is_a_mutator_for_each_pool_and_place() -> None:
    assigns = of_kind(objects(), "Assign")
    assert len({each["metadata"]["name"] for each in assigns}) == len(assigns) == 4
    gpu = next(each for each in assigns if each["spec"]["location"] == "spec.nodeSelector")
    assert gpu["spec"]["match"]["namespaceSelector"]["matchExpressions"][-1] in (
        {"key": "agentpool", "operator": "In", "values": ["gpu"]},
        {"key": "agentpool", "operator": "In", "values": ["Cheap_1"]},
    )
    assert {"kube-system", "fairlead"} <= {*gpu["spec"]["match"]["excludedNamespaces"]}
    (_, of_daemon_sets) = of_kind(objects(), "ModifySet")
    assert of_daemon_sets["spec"]["location"] == "spec.template.spec.tolerations"
    assert of_daemon_sets["spec"]["applyTo"][0]["kinds"] == ["DaemonSet"]


def test_keys_are_added_one_by_one_where_a_pod_keeps_its_own() -> None:
    locations = {
        each["spec"]["location"] for each in of_kind(objects(podSelector="merge"), "Assign")
    }
    assert 'spec.nodeSelector."example.com/disk"' in locations
    assert "spec.nodeSelector" not in locations


def test_the_default_pool_is_for_namespaces_without_the_label() -> None:
    selectors = [
        each["spec"]["match"]["namespaceSelector"]["matchExpressions"]
        for each in of_kind(objects(defaultPool="gpu"), "Assign")
    ]
    assert sum({"key": "agentpool", "operator": "DoesNotExist"} in each for each in selectors) == 2


def test_a_constraint_refuses_and_another_one_warns() -> None:
    refusing, warning = of_kind(objects(), "FairleadNodePool")
    actions = [
        each["spec"]["scopedEnforcementActions"][0]["action"] for each in (refusing, warning)
    ]
    assert actions == ["deny", "warn"]
    (limits,) = of_kind(objects(intents={"replica-limits": LIMITS}), "FairleadReplicaLimits")
    assert limits["spec"]["parameters"]["ranges"] == LIMITS["parameters"]["ranges"]
    assert limits["spec"]["match"]["kinds"][2] == {"apiGroups": ["autoscaling"], "kinds": ["Scale"]}


def test_with_enforcement_warn_no_constraint_refuses() -> None:
    rendered = objects(intents={"replica-limits": LIMITS}, enforcement="warn")
    actions = [
        each["spec"]["scopedEnforcementActions"][0]["action"]
        for each in rendered
        if each["apiVersion"].startswith("constraints.")
    ]
    assert actions == ["warn", "warn"]


def run(settings: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        render.command,
        ["--engine", "gatekeeper", "--settings", str(settings), *arguments],
        standalone_mode=False,
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "contact: us\nfailurePolicy: Ignore\npools: {a: {}}\n",
            2,
            "failurePolicy: Gatekeeper has",
        ),
        ("contact: us\n", 1, "pools: declare every pool"),
        (
            "pools: {a: {}}\nintents:\n  node-pool:\n    exempt:\n      users: [root]\n",
            5,
            r"intents\.node-pool\.exempt\.users: a mutator",
        ),
        (
            "pools: {a: {}}\nintents:\n  mesh:\n    intent: sidecar-injection\n    parameters:\n"
            "      container: {name: a, image: b}\n      on_conflict: refuse\n"
            "      position: first\n",
            8,
            r"intents\.mesh\.parameters\.position: set position to last",
        ),
        (
            "pools: {a: {}}\nintents:\n  mesh:\n    intent: sidecar-injection\n    parameters:\n"
            "      container: {name: a, image: b}\n      position: last\n",
            5,
            r"intents\.mesh\.parameters\.on_conflict: set on_conflict to refuse",
        ),
    ],
)
def test_what_gatekeeper_cannot_express_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text(text)
    with pytest.raises(InputError, match=rf"fairlead\.yaml:{line}: {words}"):
        raise run(settings).exception or AssertionError


def test_render_prints_the_objects_in_the_order_in_which_to_apply_them(tmp_path: Path) -> None:
    settings = tmp_path / "fairlead.yaml"
    settings.write_text(json.dumps({"pools": POOLS}))
    first, second = (run(settings, "-o", "json") for _ in range(2))
    assert first.stdout == second.stdout
    groups = [each["apiVersion"].split(".")[0] for each in json.loads(first.stdout)]
    assert list(dict.fromkeys(groups)) == ["templates", "mutations", "constraints"]


def refused(folder: Path, change: tuple[str, str], **settings: Any) -> str:
    """How a new policy is refused, in whose module or facts a text is replaced."""
    new_policy.policy("sample-policy", folder)
    own = [folder / "sample_policy" / name for name in ("sample_policy.rego", "intent.yaml")]
    (changed,) = (path for path in own if change[0] in path.read_text())
    changed.write_text(changed.read_text().replace(*change))
    given = Settings.model_validate({"pools": POOLS, **settings})
    with pytest.raises(UsageError) as error:
        engines.render("gatekeeper", PolicySet.load(given, folder))
    return str(error.value)


def test_a_new_policy_that_refuses_needs_no_further_file(tmp_path: Path) -> None:
    new_policy.policy("sample-policy", tmp_path)
    given = Settings.model_validate({"pools": POOLS})
    rendered = engines.render("gatekeeper", PolicySet.load(given, tmp_path))
    assert of_kind(rendered, "FairleadSamplePolicy")


def test_a_policy_that_reads_what_gatekeeper_lacks_is_refused(tmp_path: Path) -> None:
    read = "\ndeny contains `x` if data.kubernetes.services.a\n"
    shown = refused(tmp_path, ("\nimport data.review\n", f"\nimport data.review\n{read}"))
    assert "intents.sample-policy: it uses data.kubernetes.services" in shown


def test_a_policy_that_calls_out_is_refused(tmp_path: Path) -> None:
    read = "\ndeny contains `x` if http.send({`method`: `GET`, `url`: `http://a`}).body\n"
    shown = refused(tmp_path, ("\nimport data.review\n", f"\nimport data.review\n{read}"))
    assert "intents.sample-policy: it uses http.send" in shown


def test_a_policy_about_what_gatekeeper_is_not_asked_about_is_refused(tmp_path: Path) -> None:
    shown = refused(tmp_path, ("operations: [CREATE", "operations: [DELETE, CREATE"))
    assert "intents.sample-policy: it decides on DELETE of " in shown


def test_a_policy_about_a_status_is_refused_unless_it_is_about_its_labels(tmp_path: Path) -> None:
    of_status = ("operations: [CREATE", "subresource: status\n    operations: [UPDATE, CREATE")
    assert "/status, about which Gatekeeper is not asked" in refused(tmp_path, of_status)
    labels = {"parameters": {"labels": [{"key": "team"}]}}
    assert of_kind(objects(intents={"required-labels": labels}), "FairleadRequiredLabels")


def test_a_policy_that_patches_without_mutators_is_refused(tmp_path: Path) -> None:
    shown = refused(
        tmp_path, ("operations: [CREATE", "webhooks: [mutating]\n    operations: [CREATE")
    )
    assert "sample-policy has no engines/gatekeeper.yaml" in shown


def test_a_case_without_declared_pools_gets_those_that_it_names() -> None:
    case = next(case for case in cases.load() if case.name == "a gate may go")
    assert not case.settings.pools
    assert case.namespace is not None
    assert case.namespace.labels["agentpool"] in inexpressible.declared(case).pools


def test_the_docs_show_the_values_of_the_chart() -> None:
    page = yaml_files.read_text(paths.root() / "docs" / "engines.md")
    assert yaml_files.read_text(installation.VALUES) in page


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mutator: []", r"gatekeeper\.yaml:1: .*mutator.*did you mean 'mutators'"),
        ("refused: [{when: always, at: [pools], reason: x}]", r"gatekeeper\.yaml:1: .*when"),
        ("", "is empty"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "gatekeeper.yaml").write_text(text)
    (_, (instance, *_)) = every_intent()
    intent = instance.intent
    moved = type(intent)(**{**vars(intent), "source": str(tmp_path / "sample.rego")})
    with pytest.raises(InputError, match=words):
        definition.of(moved)


def test_a_mutator_of_an_unknown_request_is_told() -> None:
    bundle, active = every_intent()
    settings = Settings.model_validate({"pools": POOLS})
    (node_pool,) = (each for each in active if each.name == "node-pool")
    few = type(node_pool)(**{**vars(node_pool), "requests": node_pool.requests[:1]})
    with pytest.raises(InputError, match="no request is named daemonsets"):
        manifests.render([few], settings, bundle)

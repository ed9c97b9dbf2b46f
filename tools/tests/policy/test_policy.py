"""The policies as they are deployed, and OPA's answers if a part is missing."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fairlead.common import paths
from fairlead.common.errors import FairleadError, InputError
from fairlead.opa import cli
from fairlead.policy import bundles, intents, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "namespace": "payments",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {"metadata": {"name": "web"}, "spec": {}},
    },
}
DATA = {
    "kubernetes": {"namespaces": {"payments": {"metadata": {"labels": {"agentpool": "pool1"}}}}}
}


def test_the_bundle_holds_all_modules_but_tests_and_the_guard() -> None:
    modules = PolicySet.load(Settings()).modules
    assert {
        "main.rego",
        "health.rego",
        "settings.rego",
        "node_pool.node_pool.rego",
    } <= modules.keys()
    assert not [
        key
        for key in modules
        if "test" in key or "authz" in key or not re.fullmatch(r"[-._a-zA-Z0-9]+", key)
    ]


def test_the_revision_follows_the_texts_and_the_settings() -> None:
    same = {PolicySet.load(Settings()).revision, PolicySet.load(Settings()).revision}
    other = {
        PolicySet.load(Settings(pod_selector="merge")).revision,
        bundles.revision({"a": "b"}),
        bundles.revision({}),
    }
    assert len(same) == 1
    assert len(same | other) == 4


@pytest.mark.parametrize(
    "missing",
    [
        *("main.rego", "settings.rego", "intents.rego"),
        *(f"{n}.{n}.rego" for n in ("node_pool", "review", "scope")),
    ],
)
def test_while_a_module_is_missing_there_is_no_answer(missing: str) -> None:
    modules = dict(PolicySet.load(Settings()).modules)
    whole = cli.evaluate("data.system.main", modules=modules, data=DATA, input=REVIEW)
    assert whole["response"]["patchType"] == "JSONPatch"
    for name in [name for name in modules if name.split(".")[0] == missing.split(".")[0]]:
        del modules[name]
    assert cli.evaluate("data.system.main", modules=modules, data=DATA, input=REVIEW) is None


def test_every_intent_in_force_decides() -> None:
    modules = PolicySet.load(Settings()).modules
    assert cli.evaluate(
        "object.keys(data.system._decisions)", modules=modules, data=DATA, input=REVIEW
    ) == [
        intent.name for intent in intents.in_folder(policy_files.builtin()) if intent.facts.enabled
    ]


def test_all_that_decides_is_loaded_in_one_pass_module_by_module() -> None:
    """Loads the modules in the order of their names, as sidecars do. Failed ones are tried again,
    by kube-mgmt only twice.
    """
    modules, loaded = PolicySet.load(Settings()).modules, dict[str, str]()
    for key in sorted(modules):
        more = {**loaded, key: modules[key]}
        try:
            cli.evaluate("true", modules=more, data={})
        except FairleadError:
            continue
        loaded = more
    assert modules.keys() - loaded.keys() <= {"node_pool.explanation.rego"}


def test_the_guard_gets_digests_and_no_token() -> None:
    module = bundles.authz_module(["one", "two"])
    assert '"one"' not in module
    digests = {hashlib.sha256(token.encode()).hexdigest() for token in ("one", "two")}
    value = cli.evaluate("data.system.authz.token_digests", modules={"authz.rego": module}, data={})
    assert set(value) == digests


def test_a_settings_module_that_cannot_take_a_setting_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), copy)
    settings = copy / "settings.rego"
    settings.write_text(
        settings.read_text().replace('pod_selector := "reject"', 'pod_selector = "reject"')
    )
    with pytest.raises(InputError, match="has 0 lines `pod_selector"):
        PolicySet.load(Settings(), copy)


def test_settings_reach_the_policies() -> None:
    settings = Settings.model_validate(
        {
            "nodeLabel": "aks",
            "defaultPool": "gpu",
            "podSelector": "merge",
            "contact": '"platform" \U0001f6a2',
            "pools": {
                "gpu": {
                    "tolerations": [{"key": "gpu", "operator": "Exists"}],
                    "allowedTolerations": [{"key": "spot"}],
                    "allowedNodeSelector": {"zone": ["a", "b"]},
                },
            },
        }
    )
    policies = PolicySet.load(settings)
    document = bundles.settings_document(settings, policies.active)
    assert cli.evaluate("data.settings", modules=policies.modules, data={}) == document
    assert document["pools"] == {
        "gpu": {
            "nodeSelector": {"kubernetes.azure.com/agentpool": "gpu"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "allowedTolerations": [{"key": "spot", "operator": "Equal"}],
            "allowedNodeSelector": {"zone": ["a", "b"]},
        }
    }


def test_the_lines_of_the_readme_for_plain_opa_work(tmp_path: Path) -> None:
    opa = toolchain.ensure(["opa"])["opa"]
    readme = (paths.root() / "README.md").read_text()
    lines = re.findall(r"^opa .*$", readme, flags=re.MULTILINE)
    assert len(lines) == 2
    for line in [*lines, f"opa build -b policies -o {tmp_path / 'bundle.tar.gz'}"]:
        done = subprocess.run(
            [opa, *line.split()[1:]], cwd=paths.root(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
    decided = subprocess.run(
        [opa, *lines[1].split()[1:]], cwd=paths.root(), capture_output=True, text=True, check=True
    )
    value = json.loads(decided.stdout)["result"][0]["expressions"][0]["value"]
    assert value["response"]["allowed"] is True
    assert value["response"]["patchType"] == "JSONPatch"

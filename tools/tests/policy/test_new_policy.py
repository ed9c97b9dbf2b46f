"""`fairlead new policy` writes a policy that passes every check, or nothing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from fairlead.checks.conformance import cases, verify
from fairlead.checks.conformance.engines.opa import OpaEngine
from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.opa import cli as opa_cli
from fairlead.policy import bundles, new_policy

WRITTEN = [
    "policies/sample_policy/sample_policy.rego",
    "policies/sample_policy/sample_policy_test.rego",
    "testdata/cases/sample-policy.yaml",
    "policies/main.rego",
    "tools/fairlead/settings/models.py",
    "policies/.manifest",
]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files in which a policy is registered."""
    for name in ("policies", "testdata/cases", "tools/schemas"):
        shutil.copytree(paths.root() / name, tmp_path / name)
    models = Path("tools/fairlead/settings/models.py")
    (tmp_path / models).parent.mkdir(parents=True)
    shutil.copy(paths.root() / models, tmp_path / models)
    return tmp_path


def test_a_new_policy_passes_the_checks_of_policies(checkout: Path) -> None:
    written = new_policy.policy("sample-policy", checkout)
    assert [str(path.relative_to(checkout)) for path in written] == WRITTEN
    folder = checkout / "policies"
    opa_cli.check(folder, checkout / "tools" / "schemas")
    assert opa_cli.fmt(folder) == []
    result = opa_cli.test(folder)
    assert (list(result.failed), result.coverage) == ([], 100.0)


def test_its_cases_hold_and_all_others_still_do(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_policy.policy("sample-policy", checkout)
    monkeypatch.setattr(bundles, "folder", lambda: checkout / "policies")
    text = (checkout / "testdata/cases/sample-policy.yaml").read_text()
    own = checkout / "own.yaml"  # the settings of this process know no other intent yet
    own.write_text(text.replace("intent: sample-policy", "intent: node-pool"))
    results = verify.verify([*cases.load(own), *cases.load()], [OpaEngine()], Progress())
    assert [result for result in results if result.passed is not True] == []


def test_each_registration_lists_it_beside_the_one_that_is_there(checkout: Path) -> None:
    new_policy.policy("sample-policy", checkout)
    main = (checkout / "policies/main.rego").read_text()
    assert (
        '_decisions := {"node-pool": node_pool.decision, "sample-policy": sample_policy.decision'
        in main
    )
    assert '_audits := {"node-pool": node_pool.audit, "sample-policy": sample_policy.audit' in main
    models = (checkout / "tools/fairlead/settings/models.py").read_text()
    assert re.search(
        r'^Intent = Literal\[.*"node-pool", .*"sample-policy".*\]$', models, re.MULTILINE
    )
    roots = json.loads((checkout / "policies/.manifest").read_text())["roots"]
    assert {"sample_policy", "sample_policy_test"} <= set(roots)
    assert roots == sorted(roots)


def test_a_second_one_is_registered_beside_the_first(checkout: Path) -> None:
    new_policy.policy("sample-policy", checkout)
    new_policy.policy("another-sample", checkout)
    opa_cli.check(checkout / "policies", checkout / "tools" / "schemas")
    assert (
        '"another-sample": another_sample.decision' in (checkout / "policies/main.rego").read_text()
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Replica", "cannot name a policy"),
        ("sample_policy", "cannot name a policy"),
        ("a--b", "cannot name a policy"),
        ("node-pool", "is there already"),
        ("review", "is there already"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(
    checkout: Path, name: str, message: str
) -> None:
    before = {path: path.stat().st_mtime_ns for path in checkout.rglob("*")}
    with pytest.raises(UsageError, match=re.escape(message)):
        new_policy.policy(name, checkout)
    assert {path: path.stat().st_mtime_ns for path in checkout.rglob("*")} == before


def test_a_file_in_another_form_is_named_and_nothing_is_written(checkout: Path) -> None:
    main = checkout / "policies/main.rego"
    main.write_text(main.read_text().replace("_audits := ", "_logged := "))
    with pytest.raises(UsageError, match=r"main\.rego: expected one line that begins with"):
        new_policy.policy("sample-policy", checkout)
    assert not (checkout / "policies/sample_policy").exists()

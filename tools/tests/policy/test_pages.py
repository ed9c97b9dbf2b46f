"""Each policy has a page that says what it is for, made from its facts and its cases."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import fairlead

from fairlead.checks import policies
from fairlead.checks.steps import Result
from fairlead.common import atomic_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment.credentials import Credentials
from fairlead.policy import generated, new_policy
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings

MODULE = """\
# METADATA
# title: Limits | quotas
# description: No pod asks for more than <n> cores.
package sample_policy

decision := {"deny": set(), "patch": [], "warn": set()}
"""
FACTS = """\
parameters:
  properties:
    cores:
      description: The most cores; `1|2`, say.
      type: integer
      default: 4
    mode: {enum: [soft, hard], default: soft}
    exempt:
      type: object
      default: {}
      properties:
        teams: {type: array, items: {type: string}, default: [infra]}
requests:
  - kinds: [v1/Pod, apps/v1/Deployment]
    operations: [CREATE, UPDATE]
    namespaces:
      matchLabels: {stage: production}
      matchExpressions:
        - {key: team, operator: NotIn, values: [$(parameters.exempt.teams), ""]}
    conditions:
      - name: changes
        expression: |
          oldObject == null
          || object.spec != oldObject.spec
"""
CASES = """\
- name: a pod without limits
  intent: sample-policy
  settings: {podSelector: merge, pools: {a: {}}}
  namespace: {name: shop, labels: {stage: production}}
  request:
    operation: CREATE
    object: {apiVersion: v1, kind: Pod, metadata: {name: second}, spec: {containers: []}}
  expect: {allowed: false, message: 'set limits | ask'}
- name: another pod without limits
  intent: sample-policy
  namespace: {name: late, labels: {stage: production, team: web}, state: new}
  request:
    operation: CREATE
    object: {apiVersion: v1, kind: Pod, metadata: {name: first}, spec: {containers: []}}
  expect: {allowed: false}
- name: a scale
  intent: sample-policy
  namespace: {name: shop}
  request:
    operation: UPDATE
    subResource: scale
    object: {apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}}
    oldObject: {apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}}
  expect: {allowed: true, warnings: [few], object: {spec: {replicas: null}}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the policy sample-policy, as `fairlead new policy` writes it."""
    new_policy.policy("sample-policy", tmp_path)
    return tmp_path


def page(folder: Path) -> str:
    return texts(folder)[folder / "sample_policy" / "README.md"]


def texts(folder: Path) -> dict[Path, str]:
    return generated.texts(PolicySet.examples(Settings(), folder), [folder])


def replaced(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / "sample_policy" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_page_has_the_metadata_and_the_cases(folder: Path) -> None:
    (folder / "sample_policy" / "sample_policy.rego").write_text(MODULE)
    (folder / "sample_policy" / "intent.yaml").write_text(FACTS)
    (folder / "sample_policy" / "cases" / "sample_policy.yaml").write_text(CASES)
    lines = page(folder).splitlines()
    assert lines[2:5] == ["# Limits | quotas", "", "No pod asks for more than <n> cores."]
    selected = "`stage` is `production` and `team` is not `infra` or empty"
    late = "`stage=production`, `team=web`, not yet known to OPA"
    assert [line for line in lines if line.startswith("| ") and "|---" not in line] == [
        "| requests | kinds | operations | namespaces | asked by |",
        "| sample-policy | `pods`, `apps/deployments` | CREATE, UPDATE | "
        f"{selected} | validating webhook |",
        "| requests | condition | in CEL |",
        "| sample-policy | changes | `oldObject == null \\|\\| object.spec != oldObject.spec` |",
        "| parameter | type | default | |",
        "| `cores` | integer | `4` | The most cores; `1\\|2`, say. |",
        "| `mode` | `soft` or `hard` | `soft` |  |",
        "| `exempt` | object | `{}` |  |",
        '| `exempt.teams` | array of string | `["infra"]` |  |',
        "| example | request | namespace | settings | message |",
        f"| another pod without limits | CREATE Pod | {late} |  |  |",
        "| a pod without limits | CREATE Pod | `stage=production` | `podSelector: merge`, "
        "`pools` | set limits \\| ask |",
        "| example | request | namespace | warnings | the object then has (null: no value) |",
        '| a scale | UPDATE Scale/scale | no labels | few | `{"spec": {"replicas": null}}` |',
    ]
    assert "  name: first" in lines
    assert "      cores: 4" in lines


def test_a_check_names_the_page_that_is_out_of_date_and_the_command(folder: Path) -> None:
    def step() -> Result:
        return next(
            result
            for result in policies.run(Settings(), folder, progress=Progress())
            if result.step == "pages"
        )

    assert step().passed
    replaced(folder, "sample_policy.rego", "title: Sample policy", "title: Another title")
    failed = step()
    assert not failed.passed
    assert f"{folder}/sample_policy/README.md" in failed.detail
    assert f"fairlead generate --policies {folder}" in failed.detail
    atomic_files.write_all(generated.outdated(texts(folder)))
    assert step().passed


def test_the_command_writes_the_pages_of_the_settings_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_policy.repository(tmp_path, "sample-policy")
    (written,) = tmp_path.glob("policies/*/README.md")
    text = written.read_text()
    written.unlink()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIRLEAD_SETTINGS", raising=False)
    done = fairlead("generate", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert written.read_text() == text
    assert fairlead("generate", "-o", "json").stdout.strip() == "[]"


def test_a_page_that_its_user_wrote_stays(folder: Path) -> None:
    (folder / "sample_policy" / "README.md").write_text("# Mine\n")
    assert [*texts(folder)] == [folder / "intent.schema.json"]


def test_a_parameter_without_a_default_has_its_example(folder: Path) -> None:
    replaced(
        folder, "intent.yaml", "default: example.com/forbidden", "examples: [example.com/other]"
    )
    assert "      label: example.com/other" in page(folder).splitlines()


def test_a_parameter_without_a_default_or_an_example_is_named(folder: Path) -> None:
    replaced(folder, "intent.yaml", "  properties:", "  required: [team]\n  properties:")
    with pytest.raises(InputError, match=r"intent\.yaml:6: the defaults .*'team' is a required"):
        page(folder)


def test_pages_never_reach_a_cluster(folder: Path) -> None:
    policies = PolicySet.load(Settings(policies=[str(folder)]))
    assert {Path(key).suffix for key in policies.modules} == {".rego"}
    objects = manifests.render_objects(policies, Credentials("", b"", b"", b""))
    assert "fairlead generate" not in manifests.to_yaml(objects)

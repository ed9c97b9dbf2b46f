"""fairlead.yaml: defaults, presets, and errors with the line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from fairlead.cli.authoring.settings import command
from fairlead.common.errors import InputError, UsageError
from fairlead.kube import labels
from fairlead.policy import policy_files
from fairlead.policy.fairlead_yaml import find, load
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.images import IMAGE_VARIABLES
from fairlead.settings.models import Images, Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("FAIRLEAD_SETTINGS", *IMAGE_VARIABLES.values()):
        monkeypatch.delenv(variable, raising=False)


def write(folder: Path, text: str) -> Path:
    path = folder / "fairlead.yaml"
    path.write_text(text)
    return path


def test_without_a_file_all_is_default() -> None:
    assert load() == Settings()


def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_SETTINGS", str(write(tmp_path, "namespaceLabel: acme.io/pool\n")))
    assert load().namespace_label == "acme.io/pool"


@pytest.mark.parametrize(
    ("preset", "label"),
    [
        ("aks", "kubernetes.azure.com/agentpool"),
        ("node-restriction", "node-restriction.kubernetes.io/agentpool"),
        ("gke", "cloud.google.com/gke-nodepool"),
        ("eks", "eks.amazonaws.com/nodegroup"),
        ("karpenter", "karpenter.sh/nodepool"),
        ("acme.io/pool", "acme.io/pool"),
    ],
)
def test_a_platforms_name_stands_for_its_node_label(
    tmp_path: Path, preset: str, label: str
) -> None:
    assert load(write(tmp_path, f"nodeLabel: {preset}\n")).node_label == label


def test_a_pool_without_a_selector_has_the_node_label(tmp_path: Path) -> None:
    settings = load(
        write(tmp_path, "nodeLabel: pool\npools:\n  gpu: {}\n  big: {nodeSelector: {a: b, c: d}}\n")
    )
    assert settings.assignment("gpu").node_selector == {"pool": "gpu"}
    assert settings.assignment("big").node_selector == {"a": "b", "c": "d"}


def test_the_labels_that_make_a_node_one_of_a_pool_are_those_of_all_pools(tmp_path: Path) -> None:
    def keys(text: str) -> list[str]:
        return load(write(tmp_path, text)).pool_keys()

    assert keys("nodeLabel: pool\n") == ["pool"]
    assert keys("nodeLabel: pool\npools:\n  gpu: {}\n  big: {nodeSelector: {a: b, c: d}}\n") == [
        "a",
        "c",
        "pool",
    ]
    assert keys("nodeLabel: pool\npools:\n  big: {nodeSelector: {a: b}}\n") == ["a"]


@pytest.mark.parametrize(
    ("key", "may"),
    [
        ("agentpool", True),
        ("kubernetes.azure.com/agentpool", True),
        ("cloud.google.com/gke-nodepool", True),
        ("node-restriction.kubernetes.io/agentpool", False),
        ("acme.node-restriction.kubernetes.io/agentpool", False),
        ("kubernetes.io/agentpool", False),
        ("k8s.io/agentpool", False),
        ("acme.k8s.io/agentpool", False),
        ("notkubernetes.io/agentpool", True),
        ("kubernetes.io/hostname", True),
        ("topology.kubernetes.io/zone", True),
        ("topology.kubernetes.io/rack", False),
        ("node.kubernetes.io/agentpool", True),
        ("acme.kubelet.kubernetes.io/agentpool", True),
    ],
)
def test_what_a_kubelet_may_set_is_what_node_restriction_lets_it(key: str, may: bool) -> None:
    assert labels.kubelet_may_set(key) is may


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "is empty"),
        ("# nothing\n", None, "holds no document"),
        ("- a\n- b\n", 1, "a mapping is expected, not a list"),
        ("nodeLabel: a\npodSelector: [", 2, "not valid YAML"),
        ("nodeLabel: a\n\nnodeLable: b\n", 3, "did you mean 'nodeLabel'"),
        ("nodeLabel: a\nzzz: b\n", 2, "unknown key"),
        ("nodeLabel: a\nnodeLabel: b\n", 2, "twice"),
        ("replicas: two\n", 1, "replicas is 'two': write a whole number"),
        ("replicas: '2'\n", 1, "replicas is '2': write a whole number, without quotes"),
        ("maxStaleness: 9\n", 1, "maxStaleness is 9: write 10 or more"),
        ("maxStaleness: 1m\n", 1, "write a whole number"),
        ("timeoutSeconds: 0\n", 1, "timeoutSeconds is 0: write 1 or more"),
        ("timeoutSeconds: 31\n", 1, "timeoutSeconds is 31: write 30 or less"),
        ("enforcement: maybe\n", 1, "enforcement is 'maybe': write 'deny' or 'warn'"),
        ("enforcement: 3\n", 1, "enforcement is 3: write a mapping"),
        (
            "enforcement:\n  node-pool: warn\n  node-pol: warn\n",
            3,
            "enforcement: there is no intent 'node-pol'",
        ),
        (
            "enforcement:\n  node-pool: maybe\n",
            2,
            "enforcement.node-pool is 'maybe': write 'deny' or 'warn'",
        ),
        ("namespaceLabel: 'a b'\n", 1, "is not a label key"),
        ("defaultPool: '-x'\n", 1, "is not a label value"),
        ("defaultPool: ''\n", 1, "defaultPool is empty: write at least 1 character"),
        ("pools:\n  gpu:\n    nodeSelector:\n      a: 'b c'\n", 4, "is not a label value"),
        ("pools:\n  gpu:\n    tolerations:\n      - key: a\n        efect: x\n", 5, "unknown key"),
        (
            "pools:\n  gpu:\n    tolerations:\n      - {operator: Exists, value: x, key: gpu}\n",
            4,
            "Exists has no value",
        ),
        (
            "pools:\n  gpu:\n    tolerations:\n      - {key: a, value: b c}\n",
            4,
            "is not a label value",
        ),
        (
            "pools:\n  gpu:\n    tolerations:\n      - {key: a, value: b, tolerationSeconds: 60}\n",
            4,
            "tolerationSeconds has the effect NoExecute",
        ),
        (
            "pools:\n  gpu:\n    allowedTolerations:\n      - {key: a, operator: exists}\n",
            4,
            "'Exists', 'Equal'",
        ),
        (
            "podSelector: merge\npools:\n  gpu:\n    allowedNodeSelector: {zone: a}\n",
            4,
            "pools.gpu.allowedNodeSelector.zone is 'a': write a list",
        ),
        (
            "pools:\n  gpu:\n    allowedNodeSelector: {zone: [a]}\n",
            3,
            "'gpu' has an allowedNodeSelector: set podSelector",
        ),
        ("admins: ['']\n", 1, "admins[0] is '': write text that matches"),
        ("poolAdmins: ['a,b']\n", 1, "poolAdmins[0] is 'a,b': write text that matches"),
        ("apiServerPorts: []\n", 1, "at least 1 item"),
        ("apiServerPorts: [70000]\n", 1, "apiServerPorts[0] is 70000: write 65535 or less"),
        ("apiServerNetworks: []\n", 1, "at least 1 item"),
        ("pools:\n  gpu:\n", 2, "pools.gpu is empty: write `gpu: {}`"),
        ("pools:\n  gpu: {tolerations: }\n", 2, "write `tolerations: []`"),
        ("replicas:\n", 1, "replicas is empty: write a value, or remove it"),
        ("images: {opa: 3}\n", 1, "images.opa is 3: write text, in quotes"),
        ("apiServerNetworks: [10.0.0.1/24]\n", 1, "'10.0.0.1/24' is not a network such as"),
        ("contact: ''\n", 1, "is not one line of text"),
        ('contact: "a\\nb"\n', 1, "is not one line of text"),
        ("pools: {b: {}}\ndefaultPool: a\n", 2, "defaultPool 'a' is not one of pools: b"),
        ("nodeLabel: a\n---\nnodeLabel: b\n", 3, "more than one document"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(
    tmp_path: Path, text: str, line: int | None, words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        load(path)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{path}:{line}: " if line else str(path))


def test_all_mistakes_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = """\
nodeLable: x
replicas: two
pools:
  gpu:
  big:
    nodeselector: {a: b}
    allowedTolerations:
      - {key: a, efect: NoSchedule}
contact: ''
"""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        load(path)
    assert [line.removeprefix(f"{path}:") for line in str(error.value).splitlines()] == [
        "1: unknown key 'nodeLable': did you mean 'nodeLabel'?",
        "2: replicas is 'two': write a whole number",
        "4: pools.gpu is empty: write `gpu: {}`",
        "6: unknown key 'pools.big.nodeselector': did you mean 'nodeSelector'?",
        "8: unknown key 'pools.big.allowedTolerations[0].efect': did you mean 'effect'?",
        "9: contact '' is not one line of text",
    ]


def test_contradictions_are_told_with_the_other_mistakes(tmp_path: Path) -> None:
    text = "defaultPool: a\npools:\n  b: {allowedNodeSelector: {zone: [x]}}\nreplicas: 0\n"
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        load(path)
    first, second, third = str(error.value).splitlines()
    assert first == f"{path}:1: defaultPool 'a' is not one of pools: b"
    assert second.startswith(f"{path}:3: pool 'b' has an allowedNodeSelector")
    assert third == f"{path}:4: replicas is 0: write 1 or more"


def test_a_pool_with_a_mistake_is_not_said_to_be_missing(tmp_path: Path) -> None:
    path = write(tmp_path, "defaultPool: a\npools:\n  a:\n  b: {}\n")
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value) == f"{path}:3: pools.a is empty: write `a: {{}}`"


def test_the_file_of_the_working_directory_comes_before_that_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, here, other = tmp_path / "checkout", tmp_path / "here", tmp_path / "other"
    for folder in (checkout / "policies", here, other):
        folder.mkdir(parents=True)
    (checkout / "policies" / "main.rego").touch()
    monkeypatch.setenv("FAIRLEAD_HOME", str(checkout))
    monkeypatch.chdir(here)
    assert find(None) is None
    of_checkout = write(checkout, "contact: checkout\n")
    assert find(None) == of_checkout
    mine = write(here, "contact: mine\n")
    assert (find(None), load().contact) == (mine, "mine")
    monkeypatch.setenv("FAIRLEAD_SETTINGS", str(write(other, "contact: named\n")))
    assert load().contact == "named"
    assert load(mine).contact == "mine"


def test_one_word_enforces_all_intents_and_a_map_those_it_names(tmp_path: Path) -> None:
    for text, modes in (
        ("enforcement: warn\n", ("warn", "warn")),
        ("enforcement: {node-pool: warn}\n", ("warn", "deny")),
        ("enforcement: {}\n", ("deny", "deny")),
    ):
        settings = load(write(tmp_path, text))
        assert (settings.mode("node-pool"), settings.mode("another")) == modes
    assert load(write(tmp_path, "enforcement: warn\n")).enforced() == Settings()


def test_an_intent_is_switched_off_and_gets_parameters(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "intents: {node-pool: false}\n"))
    assert settings.instances("node-pool", default=True) == {}
    assert list(settings.instances("another", default=True)) == ["another"]
    assert settings.instances("another", default=False) == {}
    settings = load(write(tmp_path, "intents: {node-pool: {enabled: true}}\n"))
    assert list(settings.instances("node-pool", default=False)) == ["node-pool"]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("enforcement:\n  nod-pool: warn\n", 2, "enforcement: there is no intent 'nod-pool': use"),
        ("intents:\n  x: false\n", 2, "intents: there is no intent 'x': use one of "),
        ("policies:\n- ./absent\n", 2, "there is no folder"),
        (
            "intents:\n  node-pool:\n    parameters: {a: 1}\n",
            3,
            "intents.node-pool.parameters: unknown key 'a': remove it",
        ),
    ],
)
def test_an_intent_that_nobody_knows_is_refused(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert words in str(error.value)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "absent.yaml")
    with pytest.raises(InputError, match="Is a directory"):
        load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"nodeLabel: \xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        load(tmp_path / "binary.yaml")


@given(st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", fullmatch=True))
def test_legal_label_values_are_taken(value: str) -> None:
    assert labels.check_value(value) == value
    assert labels.check_key(f"acme.io/{value}") == f"acme.io/{value}"


@pytest.mark.parametrize("value", ["-a", "a-", "a b", "a/b", "é", "a" * 64, "a\n"])
def test_illegal_label_values_are_not(value: str) -> None:
    with pytest.raises(ValueError, match="is not a label value"):
        labels.check_value(value)


@pytest.mark.parametrize("key", ["", "/a", "a/", "A.io/a", "a/b/c", "a" * 64, f"{'a.' * 130}io/a"])
def test_illegal_label_keys_are_not(key: str) -> None:
    with pytest.raises(ValueError, match="is not a label key"):
        labels.check_key(key)


def test_the_committed_settings_module_is_what_the_defaults_render_to() -> None:
    module = PolicySet.load(Settings()).modules["settings.rego"]
    assert module == (policy_files.builtin() / "settings.rego").read_text()


@pytest.mark.parametrize(("field", "variable"), IMAGE_VARIABLES.items())
def test_the_environments_image_comes_before_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, variable: str
) -> None:
    path = write(
        tmp_path,
        "replicas: 3\nimages: {opa: a:1, kubeMgmt: b:1, fairlead: c:1, pullPolicy: Always}\n",
    )
    value = "Never" if field == "pull_policy" else "mine:2"
    monkeypatch.setenv(variable, value)
    of_the_file = {"opa": "a:1", "kube_mgmt": "b:1", "fairlead": "c:1", "pull_policy": "Always"}
    assert load(path).images == Images.model_validate({**of_the_file, field: value}, by_name=True)
    assert load(path).replicas == 3


@pytest.mark.parametrize("image", ["registry.example:5000/opa:1.22.3", "opa"])
def test_an_image_may_be_pinned_by_its_digest(tmp_path: Path, image: str) -> None:
    pinned = f"{image}@sha256:{'0123456789abcdef' * 4}"
    assert load(write(tmp_path, f"images: {{opa: '{pinned}'}}\n")).images.opa == pinned


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("poolAdmins: [capacity]\n", "create it again without the label"),
        ("poolAdmins: []\n", "set defaultPool"),
        ("replicate: [{version: v1, resource: pods}]\n", "whole pods, which users size"),
        ("poolAdmins: []\ndefaultPool: p\n", None),
        ("replicate: [{version: v1, resource: pods, fields: []}]\n", None),
        ("replicate: [{version: v1, resource: pods, fields: [spec.nodeName]}]\n", None),
        ("{}\n", None),
    ],
)
def test_what_settings_leave_open_is_told(tmp_path: Path, text: str, words: str | None) -> None:
    remarks = list(load(write(tmp_path, text)).remarks())
    assert [words in remark for remark in remarks if words] == ([True] if words else [])
    assert len(remarks) == (words is not None)


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in IMAGE_VARIABLES.values():
        monkeypatch.setenv(variable, "")
    assert load() == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("OPA_IMAGE", "a b", "'a b' is not an image's name"),
        ("FAIRLEAD_IMAGE", "--privileged", "'--privileged' is not an image's name"),
        ("KUBE_MGMT_IMAGE", " x:1", "' x:1' is not an image's name"),
        ("IMAGE_PULL_POLICY", "never", "'never' is not IfNotPresent, Always or Never"),
    ],
)
def test_a_bad_variable_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=f"^{variable}: {words}"):
        load()


@pytest.mark.parametrize(
    ("text", "by", "valid", "renewal"),
    [
        ("contact: x", "fairlead", timedelta(days=90), timedelta(days=30)),
        ("certificates: cert-manager", "cert-manager", timedelta(days=90), timedelta(days=30)),
        ("certificates: {life: 36h}", "fairlead", timedelta(hours=36), timedelta(hours=12)),
        (
            "certificates: {life: 2m, renewBefore: 110s}",
            "fairlead",
            timedelta(minutes=2),
            timedelta(seconds=110),
        ),
    ],
)
def test_who_renews_certificates_and_when(
    tmp_path: Path, text: str, by: str, valid: timedelta, renewal: timedelta
) -> None:
    chosen = load(write(tmp_path, f"{text}\n")).certificates
    assert (chosen.by, chosen.valid, chosen.renewal) == (by, valid, renewal)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("certificates: nobody", "'fairlead' or 'cert-manager'"),
        ("certificates: {life: 90}", "certificates.life"),
        ("certificates: {life: 90 days}", "write for instance 90d"),
        ("certificates: {life: 59s}", "too short: at least 1m"),
        ("certificates: {by: cert-manager, life: 30m}", "too short: at least 1h"),
        ("certificates: {life: 9000d}", "longer than 3650 days"),
        ("certificates: {life: 90d, renewBefore: 29d}", "not between a third"),
        ("certificates: {life: 90d, renewBefore: 90d}", "not between a third"),
    ],
)
def test_a_certificate_that_could_not_be_renewed_in_time_is_a_mistake(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(InputError) as error:
        load(write(tmp_path, f"{text}\n"))
    assert words in str(error.value)
    assert "fairlead.yaml:1" in str(error.value)


def test_complete_settings_name_the_labels_that_each_pool_gives(tmp_path: Path) -> None:
    path = write(tmp_path, "pools: {cheap: {}, gpu: {nodeSelector: {disk: ssd}}}\n")
    shown = CliRunner().invoke(command, ["--settings", str(path), "-o", "json"])
    pools = json.loads(shown.stdout)["pools"]
    selectors = {name: pool["nodeSelector"] for name, pool in pools.items()}
    assert selectors == {"cheap": {"agentpool": "cheap"}, "gpu": {"disk": "ssd"}}
    assert Settings().complete() == Settings()


def test_a_key_that_stands_twice_is_to_be_removed(tmp_path: Path) -> None:
    path = write(tmp_path, "enforcement: warn\nenforcement: deny\n")
    with pytest.raises(InputError) as error:
        load(path)
    assert str(error.value).endswith(
        "the key 'enforcement' stands here twice (kubectl takes the last): remove one"
    )

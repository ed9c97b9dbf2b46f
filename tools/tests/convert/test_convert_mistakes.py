"""What `fairlead convert` refuses, and what it lists as not taken over."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
import yaml
from command_line import fairlead, refused

from fairlead.common.errors import InputError, UsageError
from fairlead.common.progress import Progress
from fairlead.convert import conversion
from fairlead.convert.conversion import Conversion
from fairlead.convert.parameters import source_of, whole_value
from fairlead.convert.targets import Untakable

MUTATOR = """\
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {{name: {name}}}
spec:
  applyTo: [{{groups: [""], kinds: [{kind}], versions: [v1]}}]
  match: {match}
  location: {location}
  parameters: {parameters}
"""
GPU = "{namespaceSelector: {matchLabels: {agentpool: gpu}}}"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, annotations: {X: 'y', %s}}\n"
SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"
DEFAULT = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
TOLERATIONS = """\
apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
"""


def mutator(
    name: str = "a",
    *,
    kind: str = "Pod",
    match: str = GPU,
    location: str = "spec.nodeSelector.disk",
    parameters: str = "{assign: {value: ssd}}",
) -> str:
    return MUTATOR.format(
        name=name, kind=kind, match=match, location=location, parameters=parameters
    )


def constraint(kind: str, parameters: str, match: str = "{}", more: str = "") -> str:
    return (
        f"apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: a}}\n"
        f"spec:\n  match: {match}\n  parameters: {parameters}\n{more}"
    )


def rule(
    mutate: str, match: str = "{resources: {kinds: [Pod], namespaces: [b]}}", **more: str
) -> str:
    lines = "".join(f"      {key}: {value}\n" for key, value in more.items())
    return (
        "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec:\n  rules:\n"
        f"    - name: r\n      match: {match}\n      mutate: {mutate}\n{lines}"
    )


def patch(spec: str) -> str:
    return f"{{patchStrategicMerge: {{spec: {spec}}}}}"


def converted(tmp_path: Path, *texts: str) -> Conversion:
    path = tmp_path / "input.yaml"
    path.write_text("---\n".join(texts))
    return conversion.convert([path], Progress())


def reasons(result: Conversion) -> str:
    return "\n".join(each.reason for each in result.not_taken_over)


PODS = "{kinds: [{apiGroups: [''], kinds: [Pod]}]}"
REPLICAS = "{kinds: [{apiGroups: [apps], kinds: [Deployment, StatefulSet, ReplicaSet]}]}"
WILD = REPLICAS[:-1] + ", namespaces: ['a*']}"
TESTED = "{assign: {value: a}, pathTests: [{subPath: x, condition: %s}]}"
RANGES = "{ranges: [{min_replicas: 1, max_replicas: 2}]}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (mutator(parameters="{assign: {value: 3}}"), "input.yaml:8: .*write its values as text"),
        (mutator(parameters="{assign: {value: a b}}"), "is not a label value"),
        (mutator(location="spec.nodeSelector"), "write a mapping"),
        (mutator(location="3"), "input.yaml:7: spec.location is 3: write text"),
        (mutator(match="[]"), "input.yaml:6: spec.match"),
        (mutator(location="spec.tolerations", parameters="{assign: {value: [x]}}"), "tolerations"),
        (
            mutator(location="spec.tolerations", parameters="{assign: {value: [{key: a, b: c}]}}"),
            r"unknown key 'tolerations\[0\].b'",
        ),
        (constraint("K8sReplicaLimits", "{ranges: {}}"), "input.yaml:6: ranges"),
        (constraint("K8sReplicaLimits", "{ranges: [{min_replicas: '3'}]}"), "without quotes"),
        (rule(patch("{nodeSelector: {a: true}}")), "write its values as text"),
        (rule("{patchesJson6902: 'a'}"), "write a list of operations"),
        (rule("{patchesJson6902: '['}"), "is not valid YAML"),
        (rule("{patchesJson6902: '{[]: 1}'}"), "is not valid YAML"),
        (rule("{patchesJson6902: '[{op: add}]'}"), "write an operation"),
        (
            "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: a}\nspec: {}",
            "rules is missing",
        ),
        (NAMESPACE % f"{SELECTOR}: a", "input.yaml:3: .*'a' is not KEY=VALUE"),
        (NAMESPACE % f"{SELECTOR}: 'a=b,'", "'' is not KEY=VALUE"),
        (NAMESPACE % f"{SELECTOR}: a=b=c", "'a=b=c' is not KEY=VALUE"),
        (NAMESPACE % f"{SELECTOR}: a=b c", "'b c' is not a label value"),
        ("podNodeSelectorPluginConfig: {a: 3}", "write text, in quotes"),
        ("podNodeSelectorPluginConfig: {a: b}", "'b' is not KEY=VALUE"),
        (
            "podNodeSelectorPluginConfig: {a: b=c}\n---\npodNodeSelectorPluginConfig: {}",
            "is also in",
        ),
        (NAMESPACE % f"{WHITELIST}: '['", "input.yaml:3: .*tolerationsWhitelist is not valid JSON"),
        (NAMESPACE % f"{WHITELIST}: '3'", "tolerationsWhitelist is no list of tolerations"),
        (NAMESPACE % (WHITELIST + """: '{"key": "a"}'"""), "input.yaml:3: .*is no list"),
        (
            NAMESPACE % (DEFAULT + """: '{"key": "a"}'"""),
            "input.yaml:3: .*defaultTolerations is no list",
        ),
        (NAMESPACE % f"{WHITELIST}: '[3]'", "is no list of tolerations"),
        (TOLERATIONS + "default: {key: a}", "input.yaml:3: default"),
        (TOLERATIONS + "default: [{Key: a}]", "a toleration without a key has the operator Exists"),
        (NAMESPACE % (WHITELIST + """: '[{"key": "a b"}]'"""), "a b"),
        (NAMESPACE % f"{WHITELIST}: '{'[' * 100000}'", "is not valid JSON"),
        (TOLERATIONS + "default: [{key: a, effect: Never}]", "input.yaml:3: default"),
        (TOLERATIONS + "---\n" + TOLERATIONS, "PodTolerationRestriction is also in "),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}", "holds nothing to convert"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: $(x), annotations: {a: b}}", "name"),
        ("kind: Assign", "apiVersion is missing"),
        ("[", "is not valid YAML"),
        ("", "is empty"),
        ("# nothing", "holds no document"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        converted(tmp_path, text)


def test_the_mistakes_of_all_documents_are_named(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(UsageError, match=r"broken.yaml:1: is not valid(?s:.)*empty.yaml: is empty"):
        conversion.convert([tmp_path / "broken.yaml", tmp_path / "empty.yaml"], Progress())
    without_spec = "apiVersion: kyverno.io/v1\nkind: Policy\nmetadata: {name: a}\n"
    with pytest.raises(UsageError, match=r"input.yaml:1: spec is missing.*\n.*:5: spec is missing"):
        converted(tmp_path, f"{without_spec}---\n{without_spec}")


def test_a_namespace_that_is_there_twice_is_named_if_it_differs(tmp_path: Path) -> None:
    first = NAMESPACE % f"{SELECTOR}: a=b"
    assert converted(tmp_path, f"{first}---\n{first}").not_taken_over == ()
    (note,) = converted(tmp_path, f"{first}---\n{NAMESPACE % 'c: d'}").not_taken_over
    assert re.fullmatch(
        r"it is also in .*input.yaml:1, with other labels or annotations, which count: "
        "convert one cluster at a time",
        note.reason,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (mutator(kind="Deployment"), "does not change pods"),
        (mutator(location="spec.priorityClassName"), "keep Gatekeeper for the rest"),
        (mutator(location='spec."nodeSelector'), "cannot be read"),
        (mutator(parameters="{assign: {externalData: {provider: x}}}"), "comes from elsewhere"),
        (mutator(match="{labelSelector: {matchLabels: {a: b}}}"), "all objects of a namespace"),
        (mutator(match="{name: web}"), "any name"),
        (mutator(match="{source: Generated}"), "what is requested"),
        (mutator(match="{scope: Cluster}"), "no object of a namespace"),
        (
            mutator(match="{kinds: [{apiGroups: [apps], kinds: [Deployment]}]}"),
            "does not name pods",
        ),
        (mutator(match="{later: 1}"), "match.later is not known"),
        (mutator(match="{namespaces: ['team-*']}"), "'team-.' is not the name of one namespace"),
        (mutator(match="{namespaces: ['a;b']}"), "is not the name of one namespace"),
        (mutator(match="{namespaces: [kube-system]}"), "is exempt"),
        (
            mutator(match="{namespaceSelector: {matchLabels: {agentpool: gpu, stage: test}}}"),
            r"by one label and its value.*agentpool in \(gpu\), stage in \(test\)",
        ),
        (
            mutator(match="{namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}"),
            "by one label and its value",
        ),
        (mutator(match="{namespaceSelector: {matchLabels: {a: ''}}}"), "opts out"),
        (
            mutator(match="{namespaceSelector: {matchLabels: {a: b}}, excludedNamespaces: [c]}"),
            "leaves out namespaces",
        ),
        (
            mutator(match="{namespaceSelector: {matchLabels: {a: b}}, namespaces: [c]}"),
            "both have to hold",
        ),
        (
            mutator(
                location="'spec.tolerations[key: a]'", parameters="{assign: {value: {key: a}}}"
            ).replace("value: {key: a}", "value: {key: a, operator: Exists}"),
            "tolerations without a nodeSelector",
        ),
        (
            mutator(parameters=TESTED % "MustExist"),
            "places every pod",
        ),
        (
            mutator(parameters=TESTED % "MustNotExist"),
            "refuses another value",
        ),
        (mutator().replace("kind: Assign", "kind: AssignMetadata"), "labels or annotations"),
        (
            mutator(location="spec.containers").replace("kind: Assign", "kind: ModifySet"),
            "location spec.containers: Fairlead places pods",
        ),
        (constraint("K8sBlockNodePort", "{}"), "convert knows no intent that says the same"),
        (constraint("K8sReplicaLimits", "{ranges: []}", REPLICAS), "no number at all"),
        (constraint("K8sReplicaLimits", RANGES, PODS), "none of which"),
        (constraint("K8sReplicaLimits", RANGES, REPLICAS, "  enforcementAction: scoped"), "scoped"),
        (
            constraint("K8sReplicaLimits", RANGES, REPLICAS[:-1] + ", namespaces: ['a*']}"),
            "name of one namespace",
        ),
        (constraint("K8sReplicaLimits", "{more: 1}", REPLICAS), "parameters.more"),
        (constraint("K8sReplicaLimits", RANGES, "{scope: Cluster}"), "no object of a namespace"),
        (constraint("K8sAllowedRepos", "{repos: []}", PODS), "no image at all"),
        (
            constraint("K8sAllowedRepos", "{repos: [nginx:1]}", PODS),
            "is not a registry or repository",
        ),
        (constraint("K8sAllowedRepos", "{repos: ['']}", PODS), "is not a registry or repository"),
        (constraint("K8sAllowedRepos", "{repos: [a.b/C/]}", PODS), "image-sources does not take"),
        (constraint("K8sAllowedRepos", "{repos: [a.b/]}", REPLICAS), "is about pods"),
        (constraint("K8sAllowedReposv2", "{allowedImages: []}", PODS), "no image at all"),
        (constraint("K8sAllowedReposv2", "{allowedImages: ['*']}", PODS), "every image"),
        (constraint("K8sAllowedReposv2", "{allowedImages: [nginx]}", PODS), "this reference alone"),
        (
            constraint("K8sAllowedReposv2", "{allowedImages: ['a.b/c:*', 'a.b/*']}", PODS),
            "allowedImages: the prefix 'a.b/c:' is not a registry or repository",
        ),
        (
            constraint("K8sAllowedReposv2", "{allowedImages: ['a.b/c*']}", PODS),
            "allowedImages: the prefix 'a.b/c' allows whatever begins so",
        ),
        (
            constraint("K8sAllowedReposv2", "{repos: [a.b/]}", PODS),
            "parameters.repos is not a parameter",
        ),
        (constraint("K8sRequiredLabels", "{labels: [{key: a}]}"), "names none"),
        (constraint("K8sRequiredLabels", "{labels: []}", PODS), "requires no label"),
        (
            constraint("K8sRequiredLabels", "{labels: [{key: a, allowedRegex: '('}]}", PODS),
            "is not a regular expression",
        ),
        (
            constraint("K8sRequiredLabels", "{labels: [{key: a}], message: x}", PODS),
            "parameters.message",
        ),
        (
            constraint(
                "K8sRequiredLabels",
                "{labels: [{key: a}]}",
                "{kinds: [{apiGroups: ['', example.com], kinds: [Pod, '*']}]}",
            ),
            r"core/\*, example.com/\*, example.com/Pod",
        ),
        (constraint("K8sContainerLimits", "{exemptImages: [a]}", PODS), "no images"),
        (constraint("K8sContainerLimits", "{cpu: much}", PODS), "resource-limits does not take"),
        (rule(patch("{nodeSelector: {a: '{{x}}'}}")), "has variables"),
        (rule(patch("{(hostNetwork): true, nodeSelector: {a: b}}")), "is a condition"),
        (rule(patch("{nodeSelector: {+(a): b}}")), "refuses another value"),
        (rule(patch("{nodeSelector: {a: null}}")), "no pool removes a key"),
        (rule(patch("{priority: 3}")), "not the nodeSelector or the tolerations"),
        (rule(patch("{nodeSelector: {a: b}, priority: 3}")), "priority: Fairlead places pods"),
        (
            rule(patch("{nodeSelector: {a: b}}"), preconditions="{all: [{key: x}]}"),
            "preconditions",
        ),
        (rule("{foreach: [{list: nodeSelector}]}"), "mutate.foreach"),
        (
            rule("{patchesJson6902: '[{op: replace, path: /spec/nodeSelector/a, value: b}]'}"),
            "only adds",
        ),
        (rule("{patchesJson6902: '[{op: add, path: /spec/priority, value: 3}]'}"), "keep Kyverno"),
        (rule(patch("{nodeSelector: {a: b}}"), "{resources: {kinds: [Deployment]}}"), "match Pod"),
        (
            rule(patch("{nodeSelector: {a: b}}"), "{resources: {kinds: [Pod], selector: {a: b}}}"),
            "match.selector",
        ),
        (
            rule(
                patch("{nodeSelector: {a: b}}"),
                "{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {a: '*'}}}}",
            ),
            "Kubernetes does not take its namespaceSelector",
        ),
        (
            rule(patch("{nodeSelector: {a: b}}"), exclude="{any: [{subjects: [{name: x}]}]}"),
            "exclude.subjects",
        ),
        (rule(patch("{nodeSelector: {a: b}}")) + "  admission: false", "about no new object"),
        (
            NAMESPACE % (WHITELIST + """: '[{"key": "a", "operator": "Exists"}]'"""),
            "it allows namespace a tolerations without a nodeSelector",
        ),
        (
            NAMESPACE % f"{SELECTOR}: ''" + "---\n" + TOLERATIONS + "default: [{key: gpu}]",
            "it gives namespace a tolerations without a nodeSelector",
        ),
        ("podNodeSelectorPluginConfig: {a: b=c}", "kubectl get namespace a -o yaml"),
        (
            "podNodeSelectorPluginConfig: {a: b=c}\n---\n" + NAMESPACE % f"{SELECTOR}: b=d",
            "refuses all of its pods",
        ),
        (
            "podNodeSelectorPluginConfig: {a: b=c}\n---\n" + NAMESPACE % "b: c",
            "and no nodeSelector",
        ),
        (
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
            "plugins: [{name: PodNodeSelector, path: other.yaml}, {name: EventRateLimit},"
            " {name: PodTolerationRestriction, path: third.yaml}]",
            "the plugin EventRateLimit is not read.*\n.*'other.yaml' of PodNodeSelector: name that "
            "file, too.*\n.*'third.yaml' of PodTolerationRestriction",
        ),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}", "is not a policy"),
        ("apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config", "write replicate and exempt"),
        ("apiVersion: status.gatekeeper.sh/v1\nkind: Other", "no counterpart"),
        (
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nspec: []",
            "its code is none of the library's",
        ),
        ("apiVersion: kyverno.io/v2\nkind: CleanupPolicy", "deletes objects by a schedule"),
        ("apiVersion: kyverno.io/v2\nkind: Other", "no counterpart"),
    ],
)
def test_what_the_settings_cannot_say_is_listed_with_the_reason(
    tmp_path: Path, text: str, words: str
) -> None:
    result = converted(tmp_path, text)
    assert re.search(words, reasons(result), re.DOTALL), reasons(result)


def test_policies_that_contradict_each_other_for_a_namespace_are_both_listed(
    tmp_path: Path,
) -> None:
    other = mutator("b", parameters="{assign: {value: hdd}}")
    cheap = mutator("c", match=GPU.replace("gpu", "cheap"))
    result = converted(tmp_path, mutator(), other, cheap)
    assert {each.origin.object for each in result.not_taken_over} == {'Assign "a"', 'Assign "b"'}
    assert 'agentpool=gpu disk=ssd, but Assign "b"' in reasons(result)
    assert list(result.settings["pools"]) == ["cheap"]


def test_a_rule_for_all_namespaces_contradicts_one_for_some(tmp_path: Path) -> None:
    everywhere = mutator("b", match="{}", parameters="{assign: {value: hdd}}")
    result = converted(tmp_path, mutator(match="{namespaces: [lab]}"), everywhere)
    assert "namespace lab disk=ssd" in reasons(result)
    assert result.settings["defaultPool"] == "hdd"
    assert result.next_steps == ()


def test_what_different_policies_give_a_namespace_adds_up(tmp_path: Path) -> None:
    zone = mutator("b", match="{}", location="spec.nodeSelector.zone")
    result = converted(tmp_path, mutator(match="{namespaces: [lab]}"), zone)
    assert result.settings["pools"] == {
        "ssd": {"nodeSelector": {"zone": "ssd"}},
        "ssd-ssd": {"nodeSelector": {"disk": "ssd", "zone": "ssd"}},
    }
    assert result.next_steps == ("kubectl label namespace lab agentpool=ssd-ssd",)


def test_only_one_label_of_namespaces_is_read(tmp_path: Path) -> None:
    team = mutator("b", match="{namespaceSelector: {matchLabels: {team: ml}}}")
    cheap = mutator("c", match=GPU.replace("gpu", "cheap"))
    result = converted(tmp_path, mutator(), team, cheap)
    assert "kubectl label namespaces -l team=ml agentpool=POOL" in reasons(result)
    assert list(result.settings["pools"]) == ["cheap", "gpu"]


def test_a_label_that_gives_no_pool_is_not_written_onto_namespaces(tmp_path: Path) -> None:
    tolerations = (
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: ModifySet\nmetadata: {name: b}\nspec:\n"
        "  applyTo: [{groups: [''], kinds: [Pod], versions: [v1]}]\n"
        "  match: {namespaceSelector: {matchLabels: {team: ml}}}\n  location: spec.tolerations\n"
        "  parameters: {operation: merge, values: {fromList: [{key: gpu, operator: Exists}]}}\n"
    )
    result = converted(tmp_path, mutator(match="{namespaces: [lab]}"), tolerations)
    assert "tolerations without a nodeSelector" in reasons(result)
    assert result.next_steps[0] == "kubectl label namespace lab agentpool=ssd"
    assert "namespaceLabel" not in result.settings


def test_the_label_of_a_namespace_that_names_no_pool_is_listed(tmp_path: Path) -> None:
    lab = "apiVersion: v1\nkind: Namespace\nmetadata: {name: lab, labels: {agentpool: old}}\n"
    result = converted(tmp_path, mutator(), lab)
    assert "agentpool=old names none of the pools" in reasons(result)
    result = converted(tmp_path, mutator(match="{namespaces: [lab]}"), lab)
    assert "has the label agentpool=old, but needs agentpool=ssd" in reasons(result)
    assert result.next_steps == ()


def test_a_name_cannot_end_a_comment(tmp_path: Path) -> None:
    text = mutator('"x\\nfailurePolicy: Ignore\\u2028pools: {}"', kind="Deployment")
    result = converted(tmp_path, text)
    assert yaml.safe_load(result.text) == {"intents": {"node-pool": False}}


def test_names_of_constraints_become_names_of_instances(tmp_path: Path) -> None:
    names = ("image-sources", "9lives", "data", "A.b", "a-b", "x" * 100, "node-pool")
    texts = [
        constraint("K8sReplicaLimits", RANGES, REPLICAS).replace("{name: a}", f"{{name: {name}}}")
        for name in names
    ]
    result = converted(tmp_path, *texts)
    assert [name for name in result.settings["intents"] if name != "node-pool"] == [
        "replica-limits-image-sources",
        "replica-limits-9lives",
        "replica-limits-data",
        "a-b",
        "a-b-2",
        "x" * 40,
        "replica-limits-node-pool",
    ]


@pytest.mark.parametrize(
    ("regex", "value", "matches"),
    [
        ("", "", True),
        ("a", "bab", True),
        ("^a", "ba", False),
        ("a$", "ab", False),
        ("^a|b$", "ac", True),
        ("^a|b$", "cb", True),
        ("^(a|b)$", "ab", False),
        ("^a$", "a", True),
        ("^$", "", True),
        ("^$", "a", False),
        (r"^a\$", "a", False),
    ],
)
def test_a_pattern_for_the_whole_value_matches_what_the_regex_finds(
    regex: str, value: str, matches: bool
) -> None:
    assert bool(re.search(regex, value)) == matches
    assert bool(re.fullmatch(whole_value(regex), value)) == matches


@pytest.mark.parametrize(
    ("prefix", "source"),
    [
        ("registry.example.com/", "registry.example.com"),
        ("Registry.Example.com/team/", "registry.example.com/team"),
        ("registry:5000/", "registry:5000"),
        ("localhost:5000", "localhost:5000"),
        ("registry.example.com:5000", "registry.example.com:5000"),
        ("localhost/", "localhost"),
        ("openpolicyagent/", "docker.io/openpolicyagent"),
        ("nginx", "docker.io/library/nginx"),
        ("nginx/", "docker.io/nginx"),
        ("docker.io/", "docker.io"),
        ("docker.io/nginx", "docker.io/library/nginx"),
        ("index.docker.io/team/app", "docker.io/team/app"),
    ],
)
def test_a_prefix_is_read_as_a_registry_or_a_repository(prefix: str, source: str) -> None:
    assert source_of(prefix) == source


@pytest.mark.parametrize(
    "prefix", ["", "/", "nginx:1", "nginx:a", "a.b:c", "a.b/c:1", "a.b//c", "a.b/c@sha256:0"]
)
def test_a_prefix_that_is_no_repository_is_left_out(prefix: str) -> None:
    with pytest.raises(Untakable, match="not a registry or repository"):
        source_of(prefix)


@pytest.mark.parametrize("key", ["podNodeSelectorPluginConfig", "PodNodeSelectorPluginConfig"])
def test_the_plugin_takes_its_key_in_any_case_and_entries_that_are_empty(
    tmp_path: Path, key: str
) -> None:
    text = f"{key}:\n  clusterDefaultNodeSelector: env=development\n  development:\n  test: ''\n"
    result = converted(tmp_path, text)
    assert (result.settings["defaultPool"], result.not_taken_over) == ("development", ())
    configuration = f"plugins: [{{name: PodNodeSelector, configuration: {{{key}: {{a: }}}}}}]"
    result = converted(
        tmp_path,
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n" + configuration,
    )
    assert result.not_taken_over == ()


def test_a_plugin_without_entries_places_nothing(tmp_path: Path) -> None:
    for text in ("podNodeSelectorPluginConfig:", TOLERATIONS + "default:\nwhitelist:"):
        result = converted(tmp_path, text)
        assert (result.settings, result.not_taken_over) == ({"intents": {"node-pool": False}}, ())


def test_annotations_are_read_as_the_plugin_reads_them(tmp_path: Path) -> None:
    gpu = """'[{"KEY": "gpu", "oPerator": "Exists", "Effect": "", "TolerationSECONDS": null}]'"""
    text = NAMESPACE % f"{SELECTOR}: disk=ssd, {DEFAULT}: {gpu}, {WHITELIST}: 'null'"
    result = converted(tmp_path, text)
    assert result.settings["pools"] == {
        "ssd": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        }
    }
    assert result.not_taken_over == ()


def test_a_key_that_the_plugin_ignores_is_named(tmp_path: Path) -> None:
    twice = """'[{"key": "a", "Key": "b", "efect": "NoSchedule"}]'"""
    text = NAMESPACE % f"{SELECTOR}: disk=ssd, {DEFAULT}: {twice}"
    result = converted(tmp_path, text)
    assert result.settings["pools"]["ssd"]["tolerations"] == [{"key": "b"}]
    assert "PodTolerationRestriction ignores the key 'efect'" in reasons(result)


def test_folders_and_lists_and_pipes_are_read(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text("podNodeSelectorPluginConfig: {a: b=c}")
    (tmp_path / "app.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\n")
    (tmp_path / "values.yaml").write_text("a: b")
    (tmp_path / "namespaces.json").write_text(
        '{"apiVersion": "v1", "kind": "NamespaceList", "items": [{"metadata": {"name": "a",'
        f' "annotations": {{"{SELECTOR}": "b=c"}}}}}}]}}'
    )
    result = conversion.convert([tmp_path, tmp_path / "plugin.yaml"], Progress())
    assert result.not_taken_over == ()
    assert result.settings["pools"] == {
        "c": {"nodeSelector": {"b": "c"}, "allowedNodeSelector": {}}
    }
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(mutator(),))
    writer.start()
    assert list(conversion.convert([pipe], Progress()).settings["pools"]) == ["gpu"]
    writer.join()


def test_wrong_input_prints_nothing_on_standard_output(tmp_path: Path) -> None:
    path = tmp_path / "input.yaml"
    path.write_text(mutator() + "---\n" + mutator(location="3"))
    assert f"{path}:16: spec.location" in refused("convert", path)
    assert "nowhere.yaml: cannot be read" in refused("convert", "nowhere.yaml")
    assert "holds nothing to convert" in refused("convert", "testdata/namespaces")
    assert fairlead("convert").returncode == 2

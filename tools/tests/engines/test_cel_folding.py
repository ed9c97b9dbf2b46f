"""Expressions in CEL are read, written and shortened without a change of what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead import engines
from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.engines.base import Decision
from fairlead.engines.cel import literals, macros, offline, writing
from fairlead.engines.cel.expressions import parse
from fairlead.engines.cel.folding import Folding
from fairlead.engines.cel.specialised import known, specialised
from fairlead.kube import admission_reviews
from fairlead.policy.policy_set import PolicySet
from fairlead.policy.requests import Request
from fairlead.settings.models import Settings

PARAMETERS: dict[str, Any] = {
    "label": "agentpool",
    "limit": 3,
    "one": ["a"],
    "many": ["a", "b", "c", "d", "e", "f", "g", "h"],
    "none": [],
    "pools": {"gpu": {"size": 2}},
    "mixed": {"text": "x", "list": []},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "nginx"}], "nodeSelector": {"disk": "ssd"}},
}
LABELS = {"agentpool": "gpu", "stage": "test"}
REQUEST = Request.model_validate(
    {
        "kinds": ["v1/Pod"],
        "operations": ["CREATE"],
        "namespaces": {
            "matchLabels": {"stage": "test"},
            "matchExpressions": [{"key": "owner", "operator": "DoesNotExist"}],
        },
        "conditions": [{"name": "c", "expression": "has(object.spec.nodeSelector)"}],
    }
)
FOLDED = [
    # what the request is
    ("request.operation == 'CREATE'", "true"),
    ("request.operation in ['UPDATE', 'DELETE']", "false"),
    ("request.kind.kind == 'Pod' ? object.spec : object.spec.template.spec", "object.spec"),
    ("request.kind.group + '/' + request.kind.kind", "'/Pod'"),
    ("has(object.spec.nodeSelector) ? 1 : 2", "1"),
    ("namespaceObject.metadata.?labels[?'stage'].orValue('')", "'test'"),
    ("namespaceObject.metadata.?labels[?'owner'].orValue('none')", "'none'"),
    ("namespaceObject.metadata.?labels[?params.label].orValue('')", None),
    # parameters
    ("params.label + '=' + 'x'", "'agentpool=x'"),
    ("params.limit > 2 && object.metadata.name != ''", "object.metadata.name != ''"),
    ("string(params.limit)", "'3'"),
    ("params.none.exists(x, x == object.metadata.name)", "false"),
    ("params.one.exists(x, x == object.metadata.name)", "'a' == object.metadata.name"),
    ("params.many.exists(x, x == object.metadata.name)", None),
    ("object.metadata.name in params.many", None),
    ("'c' in params.many", "true"),
    ("size(params.many) + size(params.pools)", "8 + 1"),
    ("params.pools['gpu'].size", "dyn(2)"),
    ("has(params.pools.gpu) && !has(params.pools['gpu'].other)", "true"),
    ("params.pools[?'cpu'].orValue({}) == {}", "true"),
    ("params.mixed.?text.hasValue()", "true"),
    ("[params.limit, object.metadata.name]", "[dyn(3), dyn(object.metadata.name)]"),
    (
        "object.metadata.name == '' ? params.limit : 'x'",
        "object.metadata.name == '' ? dyn(3) : 'x'",
    ),
    ("params.pools[object.metadata.name == 'web' ? 'gpu' : 'cpu'].size", "dyn(2)"),
    ("{'a': {'b': 1}, 'c': {'b': 2}}[object.metadata.name == 'web' ? 'a' : 'c'].b", None),
    ("has((object.metadata.name == 'a' ? {'b': 1} : {'b': 2, 'c': 3}).b)", "true"),
    ("has((object.metadata.name == 'a' ? {'b': 1} : {'b': 2, 'c': 3}).c)", None),
    ("object.spec.containers.map(c, dyn({'c': 1})[c.name])", None),
    # operators
    ("!(object.metadata.name == 'a')", "object.metadata.name != 'a'"),
    ("!!has(object.spec.x)", "has(object.spec.x)"),
    ("has(object.spec.x) || true", "true"),
    ("has(object.spec.x) && false", "false"),
    ("has(object.spec.x) ? true : false", "has(object.spec.x)"),
    (
        "has(object.spec.x) ? false : has(object.spec.y)",
        "!has(object.spec.x) && has(object.spec.y)",
    ),
    ("has(object.spec.x) ? [] : []", "[]"),
    ("has(object.spec.x) && (has(object.spec.x) || has(object.spec.y))", "has(object.spec.x)"),
    (
        "object.metadata.name == 'a' ? object.metadata.name != 'a' : true",
        "object.metadata.name != 'a'",
    ),
    ("'a' + object.metadata.name + ('b' + object.metadata.name + 'c') + 'd'", None),
    ("[] + ['a'] + ['b']", "['a', 'b']"),
    ("[dyn('a')] + [dyn(1)]", "[dyn('a')] + [dyn(1)]"),
    ("object.metadata.labels == object.metadata.labels", "true"),
    ("null == null", "true"),
    ("dyn(1) == 1.0", "dyn(1) == 1.0"),
    ("dyn(1) in [1.0]", "dyn(1) in [1.0]"),
    ("params.limit < size(object.spec.containers)", "dyn(3) < size(object.spec.containers)"),
    ("params.limit == 3 && params.limit != 2", "true"),
    # macros
    ("['a'].map(x, x + object.metadata.name)", "['a' + object.metadata.name]"),
    ("['a'].filter(x, x in object.metadata.labels)", "'a' in object.metadata.labels ? ['a'] : []"),
    ("{'a': 1}.all(key, key == object.metadata.name)", "'a' == object.metadata.name"),
    ("{'a': object.metadata.name}.map(k, k).sort().map(k, k + '=').join(',')", "'a='"),
    (
        "['', string(object.metadata.name), ''].filter(x, x != '')",
        "[string(object.metadata.name)].filter(x, x != '')",
    ),
    ("object.spec.containers.filter(c, true)", "object.spec.containers.map(c, c)"),
    (
        "object.spec.containers.map(c, c.name).filter(c, true)",
        "object.spec.containers.map(c, c.name)",
    ),
    (
        "['x'].map(c, object.spec.containers.map(c, c.name))",
        "[object.spec.containers.map(c, c.name)]",
    ),
    ("object.spec.containers.all(c, [c.name].all(d, ['x'].all(c, d != c)))", None),
    ("object.spec.containers.exists(params, params.name == 'c')", None),
    ("[].transformMap(i, x, x) == {}", "true"),
    # texts and optional values
    ("'Pod'.lowerAscii().startsWith('p') && !'abc'.contains('d')", "true"),
    ("optional.of('x').or(optional.none()).orValue('y')", "'x'"),
    ("optional.none().orValue(object.metadata.name)", "object.metadata.name"),
    ("optional.ofNonZeroValue('').hasValue()", None),
    ("{'a': object.metadata.name}.a + {'a': object.metadata.name}[?'b'].orValue('')", None),
    # types, which API servers want to be the same within a list or a map
    (
        "[object.metadata.name, has(object.spec.nodeSelector) ? {} : object.spec] == []",
        "[dyn(object.metadata.name), dyn({})] == []",
    ),
]


def expressions() -> Iterator[str]:
    for path in sorted((paths.root() / "policies").glob("*/engines/cel.yaml")):
        yield from _of(yaml.safe_load(path.read_text()))


def _of(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("expression", "messageExpression", "done", "refusedPods"):
                yield item
            else:
                yield from _of(item)


def test_every_expression_is_written_as_it_is_read() -> None:
    texts = list(expressions())
    assert len(texts) > 100
    for text in texts:
        assert parse(writing.text(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a-(b-c)-d", "a - (b - c) - d"),
        ("(a+b)*-c", "(a + b) * -c"),
        ("!(a&&b)||c", "!(a && b) || c"),
        ("a?(b?c:d):e?f:g", "a ? (b ? c : d) : e ? f : g"),
        ("(a ? b : c).d", "(a ? b : c).d"),
        ("-1.5e3 - -9223372036854775808", "-1500.0 - -9223372036854775808"),
        ("(-1).abs()", "(-1).abs()"),
        ("0x1f + 7u", "31 + 7u"),
        ("[?a.?b, c[?'d'], {?'e': f}]", "[?a.?b, c[?'d'], {?'e': f}]"),
        ("A.b{c: 1, d: [2]}", "A.b{c: 1, d: [2]}"),
        ("a.`b-c` // why\n + d", "a.`b-c` + d"),
        (r"""'it\'s' + "\"" + r'\d' + '\x41\u00e9\n' + '''a'b'''""", None),
        ("b'\\x00' == b", "b'\\x00' == b"),
    ],
)
def test_expressions_keep_their_meaning(text: str, written: str | None) -> None:
    if written is None:
        written = r'''"it's" + '"' + '\\d' + 'Aé\n' + "a'b"'''
    assert writing.text(parse(text)) == written
    assert parse(written) == parse(text)


def test_a_long_expression_is_broken_between_its_parts_and_in_no_text() -> None:
    text = " + ".join(f"'text {number}  of {'a b ' * 9}'" for number in range(9))
    assert max(map(len, writing.text(parse(text)).splitlines())) <= 110
    assert parse(writing.text(parse(text))) == parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b", "an operator is missing after `a`"),
        ("(a", r"`\)` is missing after `\( a`"),
        ("a +", r"it ends too early after `a \+`"),
        ("a + * b", r"`\*` stands where a value is expected after `a \+`"),
        ("'x", "`'x` is not CEL"),
        ("{a}", "`:` is missing"),
        ("a.1", "an operator is missing"),
        ("a.[b]", r"`\[` stands where a name is expected"),
        ("", "it ends too early"),
    ],
)
def test_what_is_not_cel_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def folded(text: str) -> str:
    return writing.line(Folding(known(REQUEST, literals.tree(PARAMETERS)), {}).fold(parse(text)))


@pytest.mark.parametrize(("text", "expected"), FOLDED)
def test_what_is_known_is_folded(text: str, expected: str | None) -> None:
    if expected is not None:
        assert folded(text) == expected


def test_what_is_folded_has_the_value_of_before() -> None:
    """In API servers' own code; None in the table is whatever the code makes of it."""
    for text, _ in FOLDED:
        assert decide(f"dyn({text}) == dyn({folded(text)})") == Decision(True, "", POD, ()), text


def decide(text: str) -> Any:
    """The decision on a pod by a policy that reads PARAMETERS."""
    parameters = macros.substituted(parse(text), "params", parse("variables.params"))
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "p"}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "params", "expression": literals.value(PARAMETERS)}],
        "validations": [{"expression": writing.text(parameters)}],
    }
    binding = {"policyName": "p", "validationActions": ["Deny"]}
    objects = [
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]
    review = admission_reviews.build(POD, namespace="payments")
    (decision,) = offline.decide(objects, [review], {"payments": LABELS}, progress=Progress())
    return decision


def test_a_variable_that_is_read_once_stands_there_unless_a_macro_repeats_it() -> None:
    facts = known(REQUEST, literals.tree(PARAMETERS))
    variables = {
        "name": "object.metadata.name.lowerAscii()",
        "count": "size(object.spec.containers.filter(c, c.name == variables.name))",
        "unread": "variables.count",
        "subject": "request.kind.kind + ' ' + variables.name.upperAscii()",
        "once": "object.metadata.name.upperAscii()",
    }
    texts = [
        "variables.count > 1 && variables.once == 'X'",
        "variables.subject + variables.subject.substring(1)",
    ]
    written, results = specialised(variables, texts, facts)
    assert list(written) == ["name", "count", "subject"]
    assert written["subject"] == "'Pod ' + variables.name.upperAscii()"
    assert results[0] == "variables.count > 1 && object.metadata.name.upperAscii() == 'X'"


def test_with_default_settings_policies_are_short_and_read_no_parameters(tmp_path: Path) -> None:
    objects = engines.render("cel", PolicySet.load(Settings()))
    assert len(manifests.to_yaml(objects).splitlines()) <= 700
    kinds = {each["kind"] for each in objects}
    both = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
    assert kinds == {*both, *(f"{kind}Binding" for kind in both)}
    mutating, validating, *_ = objects
    assert len(mutating["spec"]["variables"]) <= 6
    assert len(validating["spec"]["variables"]) <= 14
    assert "DaemonSet" not in str(mutating) + str(validating)

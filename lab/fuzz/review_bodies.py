"""Generates request bodies: mutations of the sample reviews, pods and conformance cases.

Values are replaced, types swapped, and keys removed, doubled or moved. Values are huge or deep,
strings use all of Unicode, and numbers reach their limits. Some bodies are invalid JSON, gzip or
YAML.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.kube import admission_reviews
from fairlead.opa.containers import LARGEST_REVIEW
from fairlead.policy import cases

LABEL = "agentpool"
NAMESPACES: Mapping[str, Mapping[str, Any]] = {
    "payments": {"labels": {LABEL: "pool1"}},
    "training": {"labels": {LABEL: "pool2", "team": "a"}},
    "odd": {"labels": {LABEL: "pool9"}},
    "playground": {"labels": {}},
    "opted-out": {"labels": {LABEL: ""}},
    "bare": {},
}
"""The namespaces that OPA knows; no others exist."""


@dataclass(frozen=True)
class Body:
    """A request body: its bytes, and the headers that describe them."""

    content: bytes = field(repr=False)  # may have megabytes, which hypothesis would print
    type: str = "application/json"
    encoding: str = ""

    @classmethod
    def load(cls, path: Path) -> Body:
        """Read a body from a JSON file, as a failing run prints it. Raises InputError if it is
        invalid.
        """
        value = yaml_files.read_json(path)
        try:
            content = (
                base64.b64decode(value["base64"])
                if "base64" in value
                else value["content"].encode()
            )
            return cls(content, value.get("type", cls.type), value.get("encoding", cls.encoding))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(
                path, f"is not a body as `python -m lab fuzz` prints one: {error!r}"
            ) from error

    def document(self) -> dict[str, str]:
        """The body as JSON for `load`."""
        try:
            content = {"content": self.content.decode()}
        except UnicodeDecodeError:
            content = {"base64": base64.b64encode(self.content).decode()}
        return {**content, "type": self.type, "encoding": self.encoding}


# Texts that Python's JSON encoder cannot write: `_MARK + name` in a value stands for one of them.
_MARK = "\0raw:"


def shallow(text: str) -> str:
    """`text` without values that are nested deeper than Python's decoder of JSON goes."""
    for name, short in (("deep list", "[]"), ("deep object", '{"a":1}')):
        text = text.replace(RAW[name], short)
    return text


RAW = {
    **{
        text: text
        for text in (
            "1e308",
            "1e309",
            "-1e309",
            "1e999999999",
            "1E-999999999",
            "-0",
            "0.1e1",
            "1.0",
            "-0.0",
        )
    },
    **{
        text: text
        for text in ("9007199254740993", "9223372036854775808", "18446744073709551616", "1e19")
    },
    "digits": "9" * 5_000,
    "fraction": "0." + "3" * 5_000,
    "deep list": "[" * 5_000 + "]" * 5_000,
    "deep object": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "too deep": "[" * 20_000 + "]" * 20_000,
    "long text": json.dumps("x" * 300_000),
    "long list": "[" + "0," * 50_000 + "0]",
    "many lists": "[" + "[]," * 30_000 + "[]]",
    "many keys": "{" + ",".join(f'"k{i}":{i}' for i in range(10_000)) + "}",
    "megabyte": json.dumps("é" * 500_000),
    "largest": json.dumps("x" * (LARGEST_REVIEW - 20_000)),
    "too large": json.dumps("x" * LARGEST_REVIEW),
    "twice": '{"a":1,"a":2,"nodeSelector":{},"nodeSelector":{"agentpool":"pool2"}}',
    "nothing": "",
    "not a number": "NaN",
    "hex": "0x10",
    "plus": "+1",
    "leading zero": "007",
}
_WORDS = (
    *(
        "",
        " ",
        "a",
        "Pod",
        "pod",
        "Pods",
        "Namespace",
        "DaemonSet",
        "Deployment",
        "Service",
        "v1",
        "apps",
        "CREATE",
    ),
    "create",
    *(
        "UPDATE",
        "DELETE",
        "CONNECT",
        "PATCH",
        "*",
        "agentpool",
        "pool1",
        "pool2",
        "pool9",
        "disk",
        "ssd",
        "status",
    ),
    "binding",
    *(
        *NAMESPACES,
        "unknown",
        "kube-system",
        "fairlead",
        "../payments",
        "payments/../playground",
        "PAYMENTS",
    ),
    "payments\0",
    *(
        "system:node:n1",
        "system:nodes",
        "system:masters",
        "n1",
        "true",
        "null",
        "{}",
        "[]",
        "0",
        "%s",
    ),
    *("%!d(MISSING)", "${x}"),
    *(
        "é",
        "e\u0301",
        "\u202e",
        "\u2028",
        "\ufeff",
        "\ufffd",
        "\U0001f4a9",
        "\ud800",
        "\udc00x",
        "\x7f",
        "\0",
        "'",
    ),
    *('"', "\\", "\\u0041"),
    *(
        "~",
        "~0",
        "~1",
        "/",
        "spec/nodeName",
        "a" * 300,
        "pool1 ",
        " pool1",
        "pool1\n",
        "POOL1",
        "\uff50ool1",
    ),
    "p\u043e\u043el1",
)
_KEYS = (
    *(
        "nodeSelector",
        "nodeName",
        "tolerations",
        "spec",
        "metadata",
        "annotations",
        "labels",
        "name",
        "generateName",
    ),
    *(
        "kubernetes.io/config.mirror",
        "agentpool",
        "disk",
        "template",
        "object",
        "oldObject",
        "namespace",
    ),
    *("schedulingGates", "fairlead.dev/assigned"),
    "subResource",
    *(
        "kind",
        "group",
        "uid",
        "operation",
        "userInfo",
        "username",
        "groups",
        "dryRun",
        "request",
        "affinity",
    ),
    *("NodeName", "node_name"),
)
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        0.5,
        1e100,
        2**53,
        -(2**63),
        [],
        {},
        [None],
        {"": None},
        [[]],
        [{}],
        [0, "a", None],
    ),
    *({LABEL: "pool1"}, {LABEL: "pool2"}, {LABEL: None}, {LABEL: 1}, {LABEL: ["pool1"]}),
    *({LABEL: "pool1", "zone": "a"}, {"zone": "a"}),
    *({LABEL: "pool1", "disk": "ssd"}, {LABEL: "pool1", "disk": None}, {LABEL + " ": "pool1"}),
    *({LABEL.upper(): "pool1"}, {"a": 1.0}),
    *(
        {"nodeSelector": {}},
        {"nodeSelector": None},
        {"nodeSelector": {LABEL: "pool2"}},
        {"nodeName": "n1"},
    ),
    {"spec": {}},
    *({"kind": "Pod"}, {"group": "", "kind": "Pod"}, {"group": None, "kind": "Pod"}),
    {"group": "", "kind": "DaemonSet"},
    *({"group": "apps", "kind": "DaemonSet"}, {"group": "apps", "kind": "Deployment"}),
    {"group": "", "kind": "Namespace"},
    *({"kubernetes.io/config.mirror": "x"}, {"kubernetes.io/config.mirror": False}),
    {"kubernetes.io/config.mirror": None},
    {
        "fairlead.dev/assigned": '{"nodeSelector":{"agentpool":"pool1","zone":"a"},"tolerations":[{"key":"gpu"}]}'  # noqa: E501
    },
    {"username": "system:node:n1", "groups": ["system:nodes"]},
    {"username": "system:node:", "groups": ["system:nodes"]},
    *(
        [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        [{"key": "gpu"}],
        [None],
        ["gpu"],
        {"0": "gpu"},
    ),
    *(_MARK + name for name in RAW),
)
_POD = ("request", "object")
_OLD = ("request", "oldObject")
_SPOTS: tuple[tuple[str, ...], ...] = (
    *(
        (),
        ("apiVersion",),
        ("kind",),
        ("request",),
        ("response",),
        *(("request", key) for key in _KEYS),
    ),
    *(("request", "kind", key) for key in ("group", "kind", "version")),
    *(("request", "userInfo", key) for key in ("username", "groups")),
    *((*root, key) for root in (_POD, _OLD) for key in ("spec", "metadata", "kind", "apiVersion")),
    *(
        (*root, "spec", key)
        for root in (_POD, _OLD)
        for key in ("nodeSelector", "nodeName", "tolerations", "template")
    ),
    *(
        (*root, "spec", "nodeSelector", key)
        for root in (_POD, _OLD)
        for key in (LABEL, "disk", "zone")
    ),
    *(
        (*root, "metadata", key)
        for root in (_POD, _OLD)
        for key in ("name", "generateName", "labels", "annotations")
    ),
    *((*root, "metadata", "annotations", "kubernetes.io/config.mirror") for root in (_POD, _OLD)),
    *((*root, "metadata", "labels", LABEL) for root in (_POD, _OLD)),
    *((*root, "spec", "schedulingGates") for root in (_POD, _OLD)),
    *(
        (*_POD, "spec", "template", "spec", key)
        for key in ("nodeSelector", "tolerations", "nodeName")
    ),
    *((*_POD, "spec", "template", "metadata", *below) for below in ((), ("annotations",))),
    (*_POD, "spec", "template", "metadata", "annotations", "fairlead.dev/assigned"),
)
"""The fields that policies read or might read. Half of the changes are made here, most of them in
the pod."""
_SPOTS += tuple(spot for spot in _SPOTS if len(spot) > 3) * 3

_TEXT = st.text(max_size=20)
_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(_TEXT | st.sampled_from(_KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)
_VALUE = st.sampled_from(_VALUES) | st.sampled_from(_WORDS) | _ANY
_KEY = st.sampled_from(_KEYS) | st.sampled_from(_WORDS) | _TEXT


def samples() -> list[dict[str, Any]]:
    """The reviews that are mutated: the sample review, the sample pods, and the conformance
    cases.
    """
    root = paths.root() / "testdata"
    reviews = [yaml_files.read_json(root / "review.json")]
    reviews += [
        admission_reviews.build(
            document.value, namespace=document.value["metadata"].get("namespace", "payments")
        )
        for path in sorted((root / "pods").glob("*.yaml"))
        for document in yaml_files.read_yaml(path)
    ]
    for case in cases.load():
        request = case.request
        reviews.append(
            admission_reviews.build(
                request.manifest,
                operation=request.operation,
                namespace=case.namespace.name if case.namespace else None,
                old=request.old_object,
                user=request.user_info,
                sub_resource=request.sub_resource,
                dry_run=request.dry_run,
            )
        )
    for number, sample in enumerate(reviews):
        sample["request"]["uid"] = f"uid-{number}"  # the same in every run
    return reviews


def bodies() -> st.SearchStrategy[Body]:
    """Random bodies, each made from a sample; most are JSON."""
    return _bodies(samples())


@st.composite
def _bodies(draw: DrawFn, made_of: list[dict[str, Any]]) -> Body:
    value: Any = deepcopy(draw(st.sampled_from(made_of)))
    for _ in range(draw(st.integers(0, 4))):
        value = _with_change(draw, value)
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    text = re.sub(r'"\\u0000raw:([^"]*)"', lambda match: RAW.get(match[1], match[0]), text)
    content = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)):
        return Body(content)
    return draw(st.sampled_from(_WIRES))(content, draw(st.integers(0, len(content))))


def _with_change(draw: DrawFn, value: Any) -> Any:
    """The value with one random change, possibly of the whole value."""
    if draw(st.booleans()):
        spot: tuple[str | int, ...] = draw(st.sampled_from(_SPOTS))
    else:
        spots = list(_spots(value))
        spot = spots[draw(st.integers(0, len(spots) - 1))]
    change = draw(
        st.sampled_from(
            (
                "set",
                "set",
                "set",
                "remove",
                "wrap in a list",
                "wrap in an object",
                "add",
                "text",
                "move",
            )
        )
    )
    if change == "remove" and spot:
        _remove(value, spot)
        return value
    here = _get(value, spot)
    match change:
        case "wrap in a list":
            new: Any = [here]
        case "wrap in an object":
            new = {draw(_KEY): here}
        case "text":
            new = json.dumps(here) if not isinstance(here, str) else [ord(c) for c in here[:20]]
        case "add" if isinstance(here, dict):
            new = {**here, draw(_KEY): draw(_VALUE)}
        case "add" if isinstance(here, list):
            new = [*here, draw(_VALUE)]
        case "move":
            others = list(_spots(value))
            new = deepcopy(_get(value, others[draw(st.integers(0, len(others) - 1))]))
        case _:
            new = draw(_VALUE)
    return _set(value, spot, deepcopy(new))


def _spots(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    spots = [at]
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, part in parts:
        spots += _spots(part, (*at, key))
    return spots


def _get(value: Any, spot: tuple[str | int, ...]) -> Any:
    for key in spot:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _set(value: Any, spot: tuple[str | int, ...], new: Any) -> Any:
    """The value with `new` at the path `spot`; missing objects on the way are created."""
    if not spot:
        return new
    key, rest = spot[0], spot[1:]
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        value[key] = _set(value[key], rest, new)
    elif isinstance(value, dict):
        value[str(key)] = _set(value.get(str(key)), rest, new)
    elif value is None:
        return {str(key): _set(None, rest, new)}
    return value


def _remove(value: Any, spot: tuple[str | int, ...]) -> None:
    above, key = _get(value, spot[:-1]), spot[-1]
    if isinstance(above, dict):
        above.pop(key, None)
    elif isinstance(above, list) and isinstance(key, int):
        del above[key]


_BOMB = b"\n".join(
    [
        b'a: &a ["x","x","x"]',
        *(
            b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]" % (c + 1, c + 1, *[c] * 9)
            for c in range(97, 106)
        ),
    ]
)
_ZEROS = gzip.compress(b"[" + b"0," * 5_000_000 + b"0]")
"""10 MB of JSON, compressed to 10 kB."""
_WIRES: tuple[Callable[[bytes, int], Body], ...] = (
    lambda content, at: Body(content[:at]),
    lambda content, at: Body(content[at:]),
    lambda content, at: Body(content[:at] + content[at + 3 :]),
    lambda content, at: Body(content[:at] + b"\xff" + content[at:]),
    lambda content, at: Body(content[:at] + b"\xed\xa0\x80" + content[at:]),
    lambda content, at: Body(content[:at] + b"\0" + content[at + 1 :]),
    lambda content, at: Body(content[:at] + b'"' + content[at:]),
    lambda content, at: Body(content[:at] + b"," + content[at:]),
    lambda content, at: Body(content[:at] + b"}" + content[at:]),
    lambda content, at: Body(content[:at] + content),
    lambda content, _: Body(content + content),
    lambda content, _: Body(b"\xef\xbb\xbf" + content),
    lambda content, _: Body(content.decode("utf-8", "replace").encode("utf-16")),
    lambda content, _: Body(b" " * 1_000 + content + b"\n" * 1_000),
    lambda content, _: Body(content + b"x"),
    lambda content, _: Body(b"[" * 200_000),
    lambda content, _: Body(b'{"a":' * 100_000),
    lambda content, _: Body(b""),
    lambda content, _: Body(b"null"),
    lambda content, _: Body(gzip.compress(content, 1), encoding="gzip"),
    lambda content, at: Body(gzip.compress(content, 1)[: at // 2], encoding="gzip"),
    lambda content, _: Body(gzip.compress(content, 1) * 2, encoding="gzip"),
    lambda content, _: Body(content, encoding="gzip"),
    lambda content, _: Body(content, encoding="deflate"),
    lambda content, _: Body(content, type="text/xml"),
    lambda content, _: Body(content, type="application/json; charset=utf-16"),
    lambda content, _: Body(content, type="application/yaml"),
    lambda content, at: Body(content[:at], type="application/yaml"),
    lambda content, _: Body(_BOMB, type="application/yaml"),
    lambda content, _: Body(_ZEROS, encoding="gzip"),
)

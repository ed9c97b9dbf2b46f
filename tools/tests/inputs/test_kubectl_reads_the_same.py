"""Manifests are read as kubectl reads them: the real kubectl reads thousands of texts that hold
what YAML readers disagree on."""

from __future__ import annotations

import codecs
import json
import os
import random
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.inputs import manifest_files, manifest_texts
from fairlead.programs import toolchain

WORDS = """
y n no Off ~ null 1 08 017 0o17 0x1F 0X1f 0b11 -0b11 0b-11 1e3 1.5e400 +1 -1 1_000 _1 1__ 22:30 =
<< 2001-01-01 .5 .5e3 ._5 5. -.5 +.inf .NaN 9223372036854775807 9223372036854775808
-9223372036854775809 18446744073709551615 18446744073709551616 123456789012345678901234567890 0.1
1.0 -0 -0.0 1e20 1e21 1e-7 a:b a#b 'x' *a *b [] {} '' 0x 0b 0o8 1e 1e+ e1 + - -- ... %x @x `x`
http://x:80/ é 0.0.1 12e03 12e+3 0e0 00 -017 +0x1 1E3 true tRue Null [[]]
._5 .51_0 .5_1e1_0 .5__1 .5_ .5_e1
0777777777777777777777777 0xFFFFFFFFFFFFFFFF 0xFFFFFFFFFFFFFFFFF 1_0.5 1.5_0 {a:1} {'a':b}
"""
SCALARS = [
    *WORDS.split(),
    "",
    "a b",
    "a #b",
    '"y\\n\\u00e9"',
    '"\\ud83d\\ude00"',
    '"it\\\'s"',
    '"a\\/b"',
    '"\\\\/"',
    "!!str 1",
    "!!int '3'",
    "!!int 3.5",
    "!!float 3",
    "!!bool yes",
    "!!null ''",
    "!!binary aGk=",
    "!!binary x",
    "!!binary aG k=",
    "!!binary |\n    aG\n    k=",
    "!foo x",
    "! 3",
    "!!timestamp 2001-01-01",
    "2001-1-1 1:1:1",
    "&a 3",
    "&a {r: 2}",
    "&b {q: 1}",
    "&x [*a]",
    "[1, 2]",
    "{a: 1, a: 2}",
    "[a, {b: c}]",
    "[a: b]",
    "[a, ]",
    "{a, b}",
    "{? [a] : b}",
    "{u: x/?q=1}",
    "[a?]",
    "{a?: b}",
    "a?b",
    "['a?', \"b?\"]",
    "|\n    x\n    y",
    ">-\n    x\n    y",
    "? x",
    "- a",
    "- x: 1\n    y: 2",
    '"a\tb"',
    "a\tb",
    "x: y",
    "{a: registry:}",
    "{a: b:, c: [d:, e:]}",
    "{a:: b, c:}",
    "[a:{b: c}]",
    "{a: b:c:, d}",
    '{\t"a": "it\\\'s",\tb: c\t}',
    '["it\\\'s"\t, a:\t]',
    '"it\\\'s"\t# c',
]
KEYS = [
    *("a", "b", "'a'", "1", "y", "1.5", "1e3", "<<", "0x1", "~", "no", "true", "? a", '"q"', "a b"),
    *("*a", "&a k", "1.25e10", "0.00001", "1000000.5", ".inf", "é", "18446744073709551615"),
]
HEADER = "apiVersion: x/v1\nkind: Thing\nmetadata: {{name: n{number}}}\nspec:\n"
JSON = (
    '{{"apiVersion": "v1",\n"kind": "Thing", "metadata": {{"name": "n{number}"}}, '
    '"data": {{{data}}}}}'
)
SEPARATORS = (
    *("---\n", "---\n", "\n---\n", "--- # c\n", "---x\n", "--- \n", "\n", "", "...\n", " ---\n"),
    *("---\r\n", "---\n---\n"),
)


@pytest.fixture(scope="module")
def kubectl() -> Path:
    return toolchain.ensure(["kubectl"], Progress())["kubectl"]


def of_kubectl(kubectl: Path, files: Sequence[Path]) -> tuple[list[dict[str, Any]], str]:
    """The objects that kubectl reads, without its own annotation, and its errors."""
    named = [word for file in files for word in ("-f", str(file))]
    done = subprocess.run(
        [kubectl, "annotate", "--local", "-o", "json", *named, "zz=1"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        check=False,
    )
    objects, text = [], done.stdout.strip()
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        del value["metadata"]["annotations"]
        objects.append(value)
        text = text[end:].lstrip()
    return objects, done.stderr


def of_fairlead(content: bytes) -> tuple[list[Any], bool]:
    """The documents with a kind that Fairlead reads, and whether it read all."""
    documents = []
    complete = True
    try:
        for document in manifest_texts.documents(content, Path("f")):
            if isinstance(document.value, dict) and "kind" in document.value:
                documents.append(document.value)
            else:
                complete = False
    except InputError:
        complete = False
    return documents, complete


def comparable(value: Any) -> Any:
    """The value as JSON; numbers above 64 bits are as exact as kubectl has them."""
    if isinstance(value, dict):
        return {key: comparable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [comparable(part) for part in value]
    large = isinstance(value, int | float) and abs(value) >= 2**63
    return float(value) if large else value


def as_json(value: Any) -> str:
    return json.dumps(comparable(value), sort_keys=True)


def values(chance: random.Random, number: int) -> str:
    lines = (
        f"  {chance.choice(KEYS)}: {chance.choice(SCALARS)}\n" for _ in range(chance.randint(1, 4))
    )
    return HEADER.format(number=number) + "".join(lines)


def both_read(kubectl: Path, folder: Path, written: Mapping[str, str]) -> int:
    """How many of these texts kubectl reads, after a check that Fairlead reads the same. Each has
    the object of its name.
    """
    files = [folder / f"{name}.yaml" for name in written]
    for file, text in zip(files, written.values(), strict=True):
        file.write_text(text)
    read, _ = of_kubectl(kubectl, files)
    theirs = {value["metadata"]["name"]: as_json(value) for value in read}
    for name, text in written.items():
        documents, complete = of_fairlead(text.encode())
        expected = [theirs[name]] if name in theirs else []
        assert [as_json(value) for value in documents] == expected, text
        assert complete == (name in theirs), text
    return len(theirs)


@pytest.mark.parametrize("seed", range(3))
def test_a_value_is_what_kubectl_makes_of_it(kubectl: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    written = {f"n{number}": values(chance, number) for number in range(600)}
    written |= {
        f"n{600 + number}": f"{HEADER.format(number=600 + number)}  a: {scalar}\n"
        for number, scalar in enumerate(SCALARS)
    }
    assert both_read(kubectl, tmp_path, written) > 200


X, Y = "x: &x {a: 1, b: 1}", "y: &y {b: 2, c: 2}"
OF_SPEC = [
    [X, Y, "z:", "  <<: *x", "  <<: *y"],
    [X, Y, "z:", "  <<: *y", "  b: 3", "  <<: *x"],
    [X, Y, "z: {<<: *x, b: 3, <<: *y, c: 3}"],
    [X, Y, "z:", "  <<: [*x, *y]", "  <<: {c: 3}"],
    [X, Y, "z: &z", "  <<: *x", "  <<: {d: *y}", "u: {<<: *z, <<: *x}"],
    [X, Y, "<<: *x", "b: 3", "<<: *y"],
    ["a: &id 1", "b: *id", "c: &id 2", "d: *id", "e: *id"],
    ["a: [&id 1, *id, &id {v: 2}, *id]", "b: *id"],
    ["a: &id {v: 1}", "b: {<<: *id}", "c: &id {w: 2}", "d: {<<: *id}"],
    ["a: &id {v: 1}", "b: &id [1]", "c: *id", "d: &id x", "e: *id"],
    ["a: &id k", "*id : &id 2", "d: *id"],
]
AT_THE_TOP = [
    [X, Y, "<<: *x", "<<: *y"],
    [X, Y, "<<: *y", "b: 3", "<<: *x", "c: 4"],
    [X, Y, "<<: *x", "<<: {spec: *y}"],
    ["a: &id 1", "b: &id 2", "c: *id"],
]
REFUSED = [[X, "z:", "  <<: *x", "  <<: 3"], ["a: &id 1", "b: &id {v: *id}"]]


def test_merges_and_anchors_that_come_twice_are_read_in_their_order(
    kubectl: Path, tmp_path: Path
) -> None:
    specs = ["".join(f"  {line}\n" for line in lines) for lines in (*OF_SPEC, *REFUSED)]
    tops = ["  k: v\n" + "".join(f"{line}\n" for line in lines) for lines in AT_THE_TOP]
    written = {
        f"n{number}": HEADER.format(number=number) + text
        for number, text in enumerate([*specs, *tops])
    }
    assert both_read(kubectl, tmp_path, written) == len(OF_SPEC) + len(AT_THE_TOP)


def texts(chance: random.Random) -> Iterator[str]:
    """The parts of a file: documents in all forms, and what stands between them."""
    yield chance.choice(["", "\n", "# x\n", "---\n", " "])
    for number in range(chance.randint(1, 4)):
        block = HEADER.format(number=number) + "  k: |\n    a\n    ---\n    b\n"
        flow = HEADER.format(number=number)
        yield chance.choice(
            [
                *(block, block.rstrip("\n"), flow, flow, f"{flow}...\n", "# c\n", ""),
                JSON.format(number=number, data='"\\u00e9": "\\ud800x", "a": "\\t"'),
                JSON.format(number=number, data='"a": "1", "a": "2"'),
                JSON.format(number=number, data='"a": 1.0, "b": 1e3,'),
                *chance.choices(["{{ x }}\n", "\ta: b\n", f"%YAML 1.1\n---\n{flow}", flow]),
            ]
        )
        yield chance.choice(SEPARATORS)


def encoded(chance: random.Random, text: str) -> bytes:
    mark = chance.choice([b"", b"", b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
    text = text.replace("\n", chance.choice(["\n", "\n", "\r\n"]))
    if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return mark + text.encode("utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be")
    return mark + text.encode() + chance.choice([b"", b"", b"", b"# \xff"])


def test_a_file_has_the_documents_that_kubectl_finds_in_it(kubectl: Path, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311
    several = 0
    for number in range(120):
        file = tmp_path / f"{number}.yaml"
        content = encoded(chance, "".join(texts(chance)))
        file.write_bytes(content)
        theirs, errors = of_kubectl(kubectl, [file])
        ours, complete = of_fairlead(content)
        assert as_json(ours) == as_json(theirs), content
        assert complete != bool(errors.strip()), content
        several += len(theirs) > 1
    assert several > 10


def test_null_in_a_stream_is_passed_over(kubectl: Path, tmp_path: Path) -> None:
    """jq prints null for what is not there."""
    file = tmp_path / "stream.json"
    file.write_text("\nnull\n".join(JSON.format(number=number, data="") for number in range(3)))
    theirs, errors = of_kubectl(kubectl, [file])
    assert len(theirs) == 3
    assert not errors.strip()
    assert of_fairlead(file.read_bytes()) == (theirs, True)


def test_a_mark_within_a_joined_file_is_no_part_of_a_key(kubectl: Path, tmp_path: Path) -> None:
    one = b"apiVersion: v1\nkind: Thing\nmetadata: {name: %s}\n"
    content = codecs.BOM_UTF8 + one % b"a" + b"---\n" + codecs.BOM_UTF8 + one % b"b"
    (tmp_path / "joined.yaml").write_bytes(content)
    theirs, errors = of_kubectl(kubectl, [tmp_path / "joined.yaml"])
    assert (of_fairlead(content), errors) == ((theirs, True), "")
    assert [value["metadata"]["name"] for value in theirs] == ["a", "b"]


ITEM = "{apiVersion: v1, kind: Pod, metadata: {name: a}}"
UNTYPED = "{metadata: {name: b}}"


@pytest.mark.parametrize(
    "text",
    [
        f"kind: List\nitems: [{ITEM}]",
        f"kind: ConfigMap\nitems: [{ITEM}, {UNTYPED}]",
        f"kind: PodList\nitems: [{ITEM}, {UNTYPED}]",
        f"kind: Thing\nmetadata: {{name: c}}\nspec: {{items: [{ITEM}]}}",
        "kind: PodList\nitems: [{kind: Pod, metadata: {name: b}}]",
        "kind: PodList\nitems: [{apiVersion: v1, metadata: {name: b}}]",
        "kind: List\nitems: abc",
        "kind: AllowList\nitems: {a: 1}",
        "kind: AllowList\nmetadata: {name: d}",
    ],
)
def test_a_list_has_the_objects_that_kubectl_finds_in_it(
    kubectl: Path, tmp_path: Path, text: str
) -> None:
    as_yaml, as_stream = tmp_path / "a.yaml", tmp_path / "a.json"
    as_yaml.write_text(f"apiVersion: v1\n{text}\n")
    as_stream.write_text(json.dumps(yaml.safe_load(as_yaml.read_text())))
    for file in (as_yaml, as_stream):
        theirs, errors = of_kubectl(kubectl, [file])
        reading = manifest_files.read([file])
        assert as_json([document.value for document in reading.documents]) == as_json(theirs)
        assert bool(reading.unreadable) == bool(errors.strip())


@pytest.mark.parametrize("character", ["\0", "\x07", "\x7f", "\uffff"])
def test_a_character_that_is_no_text_is_named_with_its_line(
    kubectl: Path, tmp_path: Path, character: str
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: 'a{character}'}}\n")
    command = [str(kubectl), "annotate", "--local", "-f", str(file), "a=b", "-o", "json"]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    with pytest.raises(InputError) as error:
        [*manifest_texts.documents(file.read_bytes(), file)]
    name = f"U+{ord(character):04X}"
    assert str(error.value) == f"{file}:3: is not valid YAML: the character {name} is not allowed"


LARGE = [*("1e400", "-1.5E+999", "9" * 400, "1" * 5000)]


@pytest.mark.parametrize("number", LARGE, ids=lambda text: text[:10])
def test_a_number_that_is_too_large_is_named_with_its_line(
    kubectl: Path, tmp_path: Path, number: str
) -> None:
    file = tmp_path / "file.json"
    fine = JSON.format(number=1, data=f'"a": "{number}", "b": 1e308')
    text = fine + JSON.format(number=2, data=f'\n"a\\"": "{number}",\n"b": {number}\n')
    file.write_text(text)
    theirs, errors = of_kubectl(kubectl, [file])
    ours, complete = of_fairlead(file.read_bytes())
    assert as_json(ours) == as_json(theirs)
    assert (len(ours), complete, "cannot unmarshal number" in errors) == (1, False, True)
    with pytest.raises(InputError) as caught:
        [*manifest_texts.documents(file.read_bytes(), file)]
    line = text[: text.index(f'"b": {number}\n')].count("\n") + 1
    problem = f"{number[:40]} is too large for a number: write a smaller one, or quote it"
    assert str(caught.value) == f"{file}:{line}: {problem}"

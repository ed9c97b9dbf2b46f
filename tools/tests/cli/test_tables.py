"""Tables at the widths of terminals: words stay whole, lines fit, and nothing is lost."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fairlead.cli import output, tables

MESSAGE = (
    'pod "web" sets spec.nodeSelector disk=ssd, but namespace "payments" places its pods in pool '
    '"pool1": remove spec.nodeSelector, or set just agentpool=pool1'
)
FINDING = ("finding", "namespace", "objects", "message")
ROW = ("would be refused", "payments", "Pod web", MESSAGE)
# Capitals, unlike the names of columns under a row; some characters take two cells.
WORDS = st.text("AÉ7漢", min_size=1, max_size=30)
CELLS = st.lists(WORDS, max_size=12).map(" ".join)


def drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width or 80, highlight=False, markup=False)
    tables.draw(console, columns, rows, width=width)
    return file.getvalue().splitlines()


def test_at_160_columns_a_long_message_is_wrapped_in_its_column() -> None:
    head, first, second = drawn(FINDING, [ROW], 160)
    assert head == "FINDING           NAMESPACE  OBJECTS  MESSAGE"
    assert first.startswith(
        'would be refused  payments   Pod web  pod "web" sets spec.nodeSelector'
    )
    assert second.startswith(" " * len("would be refused  payments   Pod web  "))
    assert " ".join([first[38:], second.strip()]) == MESSAGE


def test_at_80_columns_a_message_stands_beside_narrow_columns() -> None:
    lines = drawn(("name", "error"), [("fairlead-policies", MESSAGE)], 80)
    assert lines[0] == "NAME               ERROR"
    assert lines[1].startswith("fairlead-policies  pod ")
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (
            80,
            [
                '    message: pod "web" sets spec.nodeSelector disk=ssd, but namespace "payments"',
                '    places its pods in pool "pool1": remove spec.nodeSelector, or set just',
                "    agentpool=pool1",
            ],
        ),
        (
            60,
            [
                '    message: pod "web" sets spec.nodeSelector disk=ssd, but',
                '    namespace "payments" places its pods in pool "pool1":',
                "    remove spec.nodeSelector, or set just agentpool=pool1",
            ],
        ),
    ],
)
def test_where_there_is_no_room_the_message_gets_lines_of_its_own(
    width: int, message: list[str]
) -> None:
    lines = drawn(
        (*FINDING[:2], "reason for it", *FINDING[2:]), [(*ROW[:2], "why", *ROW[2:])], width
    )
    assert lines[:2] == [
        "FINDING           NAMESPACE  REASON FOR IT  OBJECTS",
        "would be refused  payments   why            Pod web",
    ]
    assert lines[2:] == message


def test_at_60_columns_the_widest_columns_leave_the_table_until_the_others_fit() -> None:
    columns = ("pod", "url", "pid", "ready", "revision", "confirmed")
    url, confirmed = "https://opa-0.opa.fairlead.svc:8443", "2026-11-22T11:33:54+00:00"
    assert drawn(columns, [("opa-0", url, "22428", "yes", "f7f02ce9f42c", confirmed)], 60) == [
        "POD    PID    READY  REVISION      CONFIRMED",
        f"opa-0  22428  yes    f7f02ce9f42c  {confirmed}",
        f"    url: {url}",
    ]


def test_a_short_text_is_wrapped_into_two_lines_rather_than_put_under_its_row() -> None:
    columns = ("namespace", "pod", "pool", "node", "phase", "message")
    why = "the namespace has no pool: left alone"
    rows = [("sandbox", "api-647996cdf7-kwgrg", "-", "highmem-0", "Running", why)]
    assert drawn(columns, rows, 80) == [
        "NAMESPACE  POD                   POOL  NODE       PHASE    MESSAGE",
        "sandbox    api-647996cdf7-kwgrg  -     highmem-0  Running  the namespace has no",
        f"{' ' * 59}pool: left alone",
    ]


def test_the_only_column_is_wrapped() -> None:
    assert drawn(("problem",), [(MESSAGE,)], 60) == [
        "PROBLEM",
        'pod "web" sets spec.nodeSelector disk=ssd, but namespace',
        '"payments" places its pods in pool "pool1": remove',
        "spec.nodeSelector, or set just agentpool=pool1",
    ]


def test_a_column_without_a_value_takes_no_line_of_its_own() -> None:
    rows = [("a" * 50, "-"), ("b", "w " * 40)]
    assert drawn(("name", "warning"), rows, 60)[:3] == ["NAME", "a" * 50, "b"]


def test_a_path_that_is_longer_than_the_line_is_not_broken() -> None:
    path = "/home/someone/.cache/fairlead/tools/kubernetes/1.36.3-b6fde211ee/kube-apiserver"
    assert f"    {path}" in drawn(("name", "path"), [("kube-apiserver", path)], 60)


def test_without_a_width_each_row_is_one_line() -> None:
    _, line = drawn(FINDING, [ROW], None)
    assert line == f"would be refused  payments   Pod web  {MESSAGE}"


@pytest.mark.parametrize("width", [60, 80, 160])
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=4))
def test_no_word_is_broken_or_lost_and_lines_fit(
    width: int, rows: list[tuple[str, str, str, str]]
) -> None:
    lines = drawn(FINDING, rows, width)
    words = [
        word for line in lines[1:] for word in line.split() if word.removesuffix(":") not in FINDING
    ]
    assert Counter(words) == Counter(" ".join(cell for row in rows for cell in row).split())
    for line in lines:
        assert cell_len(line) <= width or len(line.split()) == 1


@pytest.mark.parametrize(("columns", "lines"), [("60", 5), ("80", 5), ("160", 3), (None, 2)])
def test_the_width_of_results_is_that_of_columns_or_none(
    columns: str | None,
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
    row: Mapping[str, object] = dict(zip(FINDING, ROW, strict=True))
    output.emit([row], "table", output.rows(None, FINDING, [row]))
    assert len(capsys.readouterr().out.splitlines()) == lines


def test_what_could_steer_a_terminal_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    name = "web\x1b[2Jé\u202e"
    output.emit([], "table", output.rows(None, ("name",), [{"name": name}]))
    assert capsys.readouterr().out.splitlines()[1] == r"web\x1b[2Jé\u202e"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            60,
            [
                "refused  CREATE of Pod payments/web",
                'message  pod "web" sets spec.nodeSelector disk=ssd, but',
            ],
        ),
        (None, ["refused  CREATE of Pod payments/web", f"message  {MESSAGE}"]),
    ],
)
def test_texts_after_labels_are_wrapped_beside_them(width: int | None, lines: list[str]) -> None:
    file = io.StringIO()
    fields = [("refused", "CREATE of Pod payments/web"), ("message", MESSAGE)]
    tables.draw_fields(Console(file=file, width=width or 80), fields, width=width, label_width=9)
    drawn_lines = file.getvalue().splitlines()
    assert drawn_lines[:2] == lines
    assert all(line.startswith(" " * 9) for line in drawn_lines[2:])
    assert " ".join(" ".join(drawn_lines[1:]).split()) == f"message {MESSAGE}"


HISTORY = ("number", "time", "by", "action", "revision", "changed", "message")
ENTRY = (
    "3 *",
    "2026-11-22T15:14:08Z",
    "fairlead-admin",
    "rollback",
    "3a90ea6def41",
    "policies",
    "why",
)


@pytest.mark.parametrize(
    ("width", "head", "below"),
    [
        (
            80,
            "NUMBER  TIME                  BY              ACTION    REVISION      CHANGED",
            ["message"],
        ),
        (60, "NUMBER  TIME                  ACTION    CHANGED   MESSAGE", ["by", "revision"]),
    ],
)
def test_as_few_columns_as_possible_leave_the_table_and_rather_the_last(
    width: int, head: str, below: list[str]
) -> None:
    lines = drawn(HISTORY, [ENTRY], width)
    assert lines[0] == head
    assert [line.split(":")[0].strip() for line in lines[2:]] == below


def test_a_heading_has_the_words_of_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"what": "guards", "failurePolicy": "Fail"}
    output.emit([row], "table", output.rows(None, tuple(row), [row], {"failurePolicy": "red"}))
    assert capsys.readouterr().out.splitlines() == ["WHAT    FAILURE POLICY", "guards  Fail"]

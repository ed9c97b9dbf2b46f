"""Tables at the widths of terminals and in pipes: lines fit, words stay whole, nothing is lost."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fairlead.cli import output

MESSAGE = (
    'pod "web" sets spec.nodeSelector disk=ssd, but namespace "payments" places its pods in pool '
    '"pool1": remove spec.nodeSelector, or set just agentpool=pool1'
)
FINDING = ("finding", "namespace", "objects", "message")
ROW = ("would be refused", "payments", "Pod web", MESSAGE)
# What no heading has; some characters take two cells.
WORDS = st.text("É7漢", min_size=1, max_size=10)
CELLS = st.lists(WORDS, max_size=12).map(" ".join)


class Screen(io.StringIO):
    """What a terminal shows; with `tty` False, what goes through a pipe."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def drawn(
    columns: Sequence[str], rows: Sequence[Sequence[str | None]], width: int | None
) -> list[str]:
    """The lines of a table in a terminal of this width, without a width in a pipe."""
    screen = Screen(tty=width is not None)
    console = Console(file=screen, width=width, no_color=True, highlight=False, color_system=None)
    lines = [dict(zip(columns, row, strict=True)) for row in rows]
    output.rows(None, columns, lines)(console)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_a_long_message_is_wrapped_in_its_column() -> None:
    head, first, second = drawn(FINDING, [ROW], 160)
    assert head == "FINDING           NAMESPACE  OBJECTS  MESSAGE"
    assert first.startswith(
        'would be refused  payments   Pod web  pod "web" sets spec.nodeSelector'
    )
    assert second.startswith(" " * len("would be refused  payments   Pod web  "))
    assert " ".join([first[38:], second.strip()]) == MESSAGE


def test_no_word_is_broken_where_the_longest_words_fit() -> None:
    columns = ("time", "user", "request", "verdict", "reason")
    row = ("2026-11-26T16:50:41Z", "fairlead-admin", "CREATE of Pod shop/stray", "refused", MESSAGE)
    lines = drawn(columns, [row], 80)
    assert max(map(len, lines)) <= 80
    assert {*MESSAGE.split()} <= {word for line in lines for word in line.split()}


def test_the_columns_of_names_stay_whole_beside_a_message() -> None:
    lines = drawn(("name", "error"), [("fairlead-policies", MESSAGE)], 80)
    assert lines[0] == "NAME               ERROR"
    assert lines[1].startswith("fairlead-policies  pod ")
    assert len(lines) == 4


def test_where_a_message_would_be_squeezed_it_stands_below_its_row() -> None:
    mapped = ("would change", "free", "Pod api", None)
    lines = drawn(FINDING, [ROW, mapped, ROW], 60)
    heading, row, other = lines[:2], lines[2:6], lines[6:7]
    assert heading == ["FINDING           NAMESPACE  OBJECTS", "  MESSAGE"]
    assert row[0] == "would be refused  payments   Pod web"
    assert " ".join(line.strip() for line in row[1:]) == MESSAGE
    assert all(line.startswith("  ") and len(line) <= 60 for line in row[1:])
    assert other == ["would change      free       Pod api"]
    assert lines[7:] == row


def test_several_columns_of_sentences_without_room_each_get_a_line() -> None:
    columns = ("error", "reason", "advice")
    lines = drawn(columns, [(MESSAGE, MESSAGE, MESSAGE)], 60)
    assert [line[:8].strip() for line in lines if line[:8].strip()] == [*columns]
    assert len(lines) == 3 * 4


@pytest.mark.parametrize("width", range(40, 120, 5))
def test_no_message_is_folded_into_many_short_lines(width: int) -> None:
    lines = drawn(FINDING, [ROW], width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 9


def test_where_the_words_of_a_row_have_no_room_each_column_gets_a_line() -> None:
    columns = ("pod", "url", "pid", "ready", "dataAsOf")
    urls = [f"https://opa-{number}.opa.fairlead.svc:8443" for number in range(2)]
    rows = [("opa", url, "22428", "yes", "2026-11-22T11:33:54+00:00") for url in urls]
    first = [
        "pod         opa",
        f"url         {urls[0]}",
        "pid         22428",
        "ready       yes",
        "data as of  2026-11-22T11:33:54+00:00",
    ]
    lines = drawn(columns, rows, 60)
    assert lines[:6] == [*first, ""]
    assert lines[6:8] == ["pod         opa", f"url         {urls[1]}"]


def test_where_there_is_no_room_columns_without_a_value_are_left_out() -> None:
    columns = ("name", "ends", "renewed", "warning")
    row = ("opa-tls", "2027-02-24T02:26:28Z", "2026-11-26T02:26:30Z", None)
    assert drawn(columns, [row], 55) == [
        "NAME     ENDS                  RENEWED",
        "opa-tls  2027-02-24T02:26:28Z  2026-11-26T02:26:30Z",
    ]
    assert drawn(columns, [row], 80)[0].endswith("WARNING")


def test_a_path_is_folded_only_where_no_line_can_hold_it() -> None:
    path = "/home/someone/.cache/fairlead/tools/kubernetes/1.36.3-b6fde211ee/kube-apiserver"
    name = "name  kube-apiserver"
    assert drawn(("name", "path"), [("kube-apiserver", path)], 90) == [name, f"path  {path}"]
    first, *folded = drawn(("name", "path"), [("kube-apiserver", path)], 60)
    assert first == name
    assert "".join(line[6:] for line in folded) == path


def test_a_tab_is_spaces_and_no_escape() -> None:
    for width in (None, 40):
        lines = drawn(("step", "detail"), [("opa test", "a.rego:3:\n\tx := y")], width)
        text = "\n".join(lines)
        assert "\\t" not in text
        assert "    x := y" in text


def test_a_table_without_rows_has_its_heading_if_there_is_room() -> None:
    assert drawn(FINDING, [], 80) == ["FINDING  NAMESPACE  OBJECTS  MESSAGE"]
    assert drawn(FINDING, [], 20) == []
    assert drawn(FINDING, [(None,) * 4], 20)[0] == "finding    -"


def test_in_a_pipe_each_row_is_one_line() -> None:
    _, line = drawn(FINDING, [ROW], None)
    assert line == f"would be refused  payments   Pod web  {MESSAGE}"


@pytest.mark.parametrize("width", [60, 80, 160, None])
@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=4))
def test_no_text_is_lost_and_lines_fit(
    width: int | None, rows: list[tuple[str, str, str, str]]
) -> None:
    lines = drawn(FINDING, rows, width)
    letters = Counter("".join(lines))
    expected = Counter("".join(cell for row in rows for cell in row))
    assert all(letters[letter] == expected[letter] for letter in "É7漢")
    assert width is None or all(cell_len(line) <= width for line in lines)


@pytest.mark.parametrize(("columns", "lines"), [("60", 6), ("160", 3), (None, 2)])
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
    row = dict(zip(FINDING, ROW, strict=True))
    output.emit([row], "table", output.rows(None, FINDING, [row]))
    text = capsys.readouterr().out
    assert len(text.splitlines()) == lines
    assert all(line == line.rstrip() for line in text.splitlines())


def test_what_could_steer_a_terminal_or_rich_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "web\x1b[2Jé\u202e[red]:warning:"
    output.emit([], "table", output.rows(None, ("name",), [{"name": name}]))
    output.fields(output.console(), [("name", name)], 6)
    shown = r"web\x1b[2Jé\u202e[red]:warning:"
    assert capsys.readouterr().out.splitlines() == ["NAME", shown, f"name  {shown}"]


@pytest.mark.parametrize("width", [60, None])
def test_texts_after_labels_are_wrapped_beside_them(width: int | None) -> None:
    screen = Screen(tty=width is not None)
    console = Console(file=screen, width=width, color_system=None)
    output.fields(console, [("refused", "CREATE of Pod payments/web"), ("message", MESSAGE)], 9)
    first, *message = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert first == "refused  CREATE of Pod payments/web"
    assert all(line.startswith(" " * 9) for line in message[1:])
    assert len(message) == (4 if width else 1)
    assert " ".join(" ".join(message).split()) == f"message {MESSAGE}"


def test_a_heading_has_the_words_of_its_key(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"what": "guards", "failurePolicy": "Fail"}
    output.emit([row], "table", output.rows(None, tuple(row), [row], {"failurePolicy": "red"}))
    assert capsys.readouterr().out.splitlines() == ["WHAT    FAILURE POLICY", "guards  Fail"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_value_is_louder_than_another(width: int) -> None:
    screen = Screen(tty=True)
    console = Console(file=screen, width=width, force_terminal=True, color_system="standard")
    row = {"name": "fairlead-policies", "time": "2026-11-26T16:50:41Z", "error": MESSAGE}
    output.rows(None, tuple(row), [row])(console)
    loud = re.findall("\x1b\\[[0-9;]*1m([^\x1b]*)", screen.getvalue())
    assert {word for text in loud for word in text.split()} <= {"NAME", "TIME", "ERROR"}
    assert "fairlead-policies" in screen.getvalue()

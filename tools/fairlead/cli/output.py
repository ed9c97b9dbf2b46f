"""Prints the results of commands as tables, JSON or YAML, and their progress and errors."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Column, Table
from rich.text import Text

from fairlead.cli import own_commands
from fairlead.common import texts, yaml_texts
from fairlead.common.progress import Progress

FORMATS = ("table", "json", "yaml")
ALL_COMMANDS = "fairlead.commands"
"""The key in the context of a command by which its help lists all commands."""

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""The places in a key such as `failurePolicy` where a word begins."""
_NO_VALUE = "-"
_GAP = 2
"""Spaces between two columns."""
_FOLDED = 30
"""The least width of a column whose texts take several lines."""
_UNBROKEN = "\0"
"""Stands for a space at which no line ends; no text that is printed has one."""
_ONE_LINE = 1_000_000
_BAR = 120
"""The least width of a terminal on which steps have a bar: it leaves room for a description."""
_ALIVE = 30.0
"""Seconds after which a step that goes on has a line, where the output is not a terminal."""


def emit(data: Any, output: str, table: Callable[[Console], None]) -> None:
    """Print `data` in the format `output`; `table` draws it for people."""
    if output == "json":
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    elif output == "yaml":
        sys.stdout.write(yaml_texts.written(data))
    else:
        table(console())


def rows(
    title: str | None,
    columns: Sequence[str],
    lines: Sequence[Mapping[str, Any]],
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Console], None]:
    """A function that draws `lines` as a table. `columns` are keys of each line, `styles` are
    rich's, by column. The heading of `failurePolicy` is FAILURE POLICY.

    Where the terminal is too narrow, columns without any value are left out. If that is not enough,
    the longest texts stand below their rows; and if the other columns have no room either, each
    column of a row gets a line.
    """
    texts_by_column = {
        column: [_CAPITAL.sub(" ", column).lower(), *(_cell(line.get(column)) for line in lines)]
        for column in columns
    }

    def draw(target: Console) -> None:
        if title:
            target.print(title, style="bold")
        room = _width(target)
        drawn = texts_by_column
        if not _widths(drawn, room):
            valued = {
                column: texts for column, texts in drawn.items() if {*texts[1:]} - {_NO_VALUE}
            }
            drawn = valued or drawn
        if widths := _widths(drawn, room):
            _print(target, _table(drawn, widths, styles))
            return
        longest = max(reversed(drawn), key=lambda column: _whole_width(drawn[column]))
        beside = {column: texts for column, texts in drawn.items() if column != longest}
        holds_sentences = _longest_word(drawn[longest]) < _whole_width(drawn[longest])
        if holds_sentences and (widths := _widths(beside, room)):
            below = drawn[longest]
            _print(target, _table_above(beside, widths, styles, below, styles.get(longest)))
            return
        labels, *records = zip(*drawn.values(), strict=True)
        for number, record in enumerate(records):
            if number:
                target.print()
            label_width = max(map(cell_len, labels)) + _GAP
            fields(target, list(zip(labels, record, strict=True)), label_width)

    return draw


def _with_gaps(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _longest_word(column: Iterable[str]) -> int:
    return max(cell_len(word) for text in column for word in text.split() or [""])


def _whole_width(column: Iterable[str]) -> int:
    return max(cell_len(line) for text in column for line in text.split("\n"))


def _widths(columns: Mapping[str, Sequence[str]], room: int) -> dict[str, int]:
    """The width of each column in a table; empty if there is no room. A column has room for its
    longest word, and for its longest text or at least _FOLDED cells of it. The longest columns,
    which hold sentences, get what the others leave.
    """
    whole = {column: _whole_width(texts) for column, texts in columns.items()}
    widths = {
        column: max(_longest_word(texts), min(whole[column], _FOLDED))
        for column, texts in columns.items()
    }
    spare = room - _with_gaps([*widths.values()])
    if spare < 0:
        return {}
    for column in sorted(whole, key=lambda column: whole[column]):
        more = min(whole[column] - widths[column], spare)
        widths[column] += more
        spare -= more
    return widths


def _table(
    columns: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    styles: Mapping[str, str],
    *,
    heading: bool = True,
) -> Table:
    """A table of the texts of each column, the first of which is its label."""
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, _GAP, 0, 0),
        header_style="bold",
        show_header=heading,
    )
    for column, (label, *_) in columns.items():
        style = styles.get(column)
        table.add_column(label.upper(), style=style, overflow="fold", width=widths[column])
    _, *records = zip(*columns.values(), strict=True)
    for record in records:
        table.add_row(*map(Text, record))
    return table


def _table_above(
    columns: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    styles: Mapping[str, str],
    below: Sequence[str],
    style: str | None,
) -> Group:
    """The same table, in which the texts of `below`, a further column, stand below the rows."""

    def indented(text: str, text_style: str) -> Padding:
        return Padding(Text(text, style=text_style), (0, 0, 0, _GAP))

    label, *texts_below = below
    headings = {column: texts[:1] for column, texts in columns.items()}
    parts: list[RenderableType] = [
        _table(headings, widths, styles),
        indented(label.upper(), "bold"),
    ]
    for number, text in enumerate(texts_below, 1):
        row = {column: [texts[0], texts[number]] for column, texts in columns.items()}
        parts.append(_table(row, widths, styles, heading=False))
        if text != _NO_VALUE:
            parts.append(indented(text, style or ""))
    return Group(*parts)


def fields(target: Console, pairs: Sequence[tuple[str, str]], label_width: int) -> None:
    """Print a text after each label; the lines of a text begin in the same column."""
    table = Table.grid()
    table.add_column(width=label_width)
    table.add_column(overflow="fold")
    for label, text in pairs:
        table.add_row(Text(label), Text(_cell(text)))
    _print(target, table)


def line(text: str = "") -> None:
    """Print one line of a result unchanged."""
    sys.stdout.write(text + "\n")


def record(values: Iterable[Any]) -> None:
    """Print values as one line of a result, separated by two spaces."""
    line("  ".join(" ".join(_cell(value).split()) for value in values))


def note(text: str) -> None:
    """Print a remark to stderr."""
    _tell(text)


def warning(text: str) -> None:
    """Print a warning to stderr."""
    _tell(text, "warning: ", "bold yellow")


def error(text: str) -> None:
    """Print an error to stderr."""
    _tell(text, "error: ", "bold red")


def _tell(text: str, prefix: str = "", style: str = "") -> None:
    """Print to stderr; on a terminal, in lines that end between words."""
    text = own_commands.as_typed(texts.printable(text.expandtabs(4), keep="\n"))
    target = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    if target.is_terminal:
        text = _folded(prefix + text, target.width).removeprefix(prefix)
    if prefix:
        target.print(prefix, style=style, end="")
    sys.stderr.write(text + "\n")


def _folded(text: str, width: int) -> str:
    """`text` with lines of at most `width` characters, unless a word is longer. A command in
    backticks that fits into a line stays whole, so that it can be copied.
    """
    lines = []
    commands = re.compile(f"`[^`\n]{{1,{max(width - 2, 1)}}}`")
    text = commands.sub(lambda command: command[0].replace(" ", _UNBROKEN), text)
    for long in text.split("\n"):
        indent = long[: len(long) - len(long.lstrip())]
        parts = textwrap.wrap(
            long,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
        )
        lines += parts if len(long) > width else [long]
    return "\n".join(lines).replace(_UNBROKEN, " ")


def console() -> Console:
    """The console for results, with colours on a terminal."""
    return Console(highlight=False, markup=False)


def columns() -> int | None:
    """The width of the terminal for results; None if they do not go to one."""
    target = console()
    return target.width if target.is_terminal else None


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress on stderr: bars on a terminal, elsewhere a line for each step that ends."""
    if not sys.stderr.isatty():
        lines = _Lines()
        try:
            yield lines
        except BaseException:
            lines.close(" ... stopped")
            raise
        lines.close()
        return
    target = Console(stderr=True)
    with Bars(*_progress_columns(target.width), console=target, transient=True) as bars:
        yield _Bars(bars)


def _progress_columns(width: int) -> list[ProgressColumn]:
    """What a terminal of this width shows of each step. If it has no room, the texts get more
    lines: rich would cut off the count and the time.
    """
    whole, folded = Column(no_wrap=True), Column(overflow="fold")
    bar = [BarColumn(table_column=whole)] if width >= _BAR else []
    return [
        SpinnerColumn(table_column=whole),
        TextColumn("{task.fields[name]}", table_column=folded),
        TextColumn("{task.description}", table_column=folded),
        *bar,
        _Count(table_column=whole),
        TimeElapsedColumn(table_column=whole),
    ]


class _Count(MofNCompleteColumn):
    """How many units of a step are finished; nothing where nobody knows how many there are."""

    def render(self, task: Task) -> Text:
        return super().render(task) if task.total is not None else Text()


def plain() -> Progress:
    """A progress listener that prints a line for each step that ends, for work that also prints."""
    return _Lines()


def quiet() -> Progress:
    """A progress listener that prints warnings alone, for work that begins again and again."""
    return _Warnings()


def flush() -> None:
    """Hand over what was printed, for commands that go on for long."""
    sys.stdout.flush()


class _Warnings(Progress):
    def warn(self, message: str) -> None:
        warning(message)


class _Lines(Progress):
    """Prints a line when a step ends, and one every _ALIVE seconds while it does not."""

    def __init__(self) -> None:
        self._steps: dict[str, _Step] = {}
        self._lock = Lock()

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        now = time.monotonic()
        with self._lock:
            step = self._steps.setdefault(name, _Step(now, now, state))
            step.state = state
            if now - step.told >= _ALIVE:
                percent = f" {done * 100 // total}%" if done < total else ""
                step.told = now
                note(f"{name}: {state}{percent} ({now - step.began:.0f} s so far)")

    def finish(self, name: str, state: str) -> None:
        with self._lock:
            self._end(self._steps.pop(name, None), name, state)

    def close(self, reason: str = "") -> None:
        """Print a line for each step that was begun and has not ended."""
        with self._lock:
            while self._steps:
                name = next(iter(self._steps))
                step = self._steps.pop(name)
                self._end(step, name, f"{step.state}{reason}")

    def warn(self, message: str) -> None:
        with self._lock:
            warning(message)

    def _end(self, step: _Step | None, name: str, state: str) -> None:
        took = f" ({time.monotonic() - step.began:.1f} s)" if step else ""
        note(f"{name}: {state}{took}")


@dataclass
class _Step:
    """A step that goes on: when it began, when a line told of it last, and its present state."""

    began: float
    told: float
    state: str


class _Bars(Progress):
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._lock = Lock()

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        with self._lock:
            if name not in self._tasks:
                self._tasks[name] = self._bars.add_task(state, name=name, total=total or None)
            self._bars.update(
                self._tasks[name], description=state, completed=done, total=total or None
            )

    def warn(self, message: str) -> None:
        text = own_commands.as_typed(message)
        self._bars.console.print(Text.assemble(("warning: ", "bold yellow"), text))


def _width(target: Console) -> int:
    """The width for tables: that of the terminal, or COLUMNS; elsewhere, such as in a pipe, one at
    which each row is one line.
    """
    narrow = target.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return target.width if narrow else _ONE_LINE


def _print(target: Console, table: RenderableType) -> None:
    """Print a table; elsewhere than on a terminal, without the spaces that fill its last column."""
    if target.is_terminal:
        target.print(table)
        return
    target.width = _width(target)
    with target.capture() as capture:
        target.print(table)
    for rendered in capture.get().splitlines():
        target.print(Text(rendered.rstrip()), soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return _NO_VALUE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return own_commands.as_typed(texts.printable(str(value).expandtabs(4), keep="\n"))


def files(paths: Sequence[Path], output: str) -> None:
    """Print the files that were written."""
    rows_of_files = [{"file": str(path)} for path in paths]
    emit(rows_of_files, output, rows(None, ("file",), rows_of_files))

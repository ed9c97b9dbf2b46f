"""Lays tables out for the width of a terminal. No word is broken.

If a table is too wide, the text of its widest column is wrapped, if enough room is left for that.
Otherwise as few columns as possible leave the table, rather the last ones than the first: their
text stands under each row, as `column: text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = 2
"""Spaces between two columns."""
_INDENT = "    "
"""Begins each line of text under a row."""
_LEAST = 40
"""The least width of a column whose text is wrapped, unless the text then takes two lines."""
_LEAST_FIRST = 20
"""The least width of the first column, which says what its row is about."""


def draw(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Mapping[str, str] = MappingProxyType({}),
    *,
    width: int | None,
) -> None:
    """Print a table. `rows` have a cell for each of `columns`; `styles` are rich's, by column.

    Without a `width` (in cells), each row is one line.
    """
    widths = _widths(columns, rows, width)
    heads = [column.upper() for column in columns]
    for number, cells in enumerate((heads, *rows)):
        bold = number == 0
        texts = {
            column: Text(cell, style="bold" if bold else styles.get(column, ""))
            for column, cell in zip(columns, cells, strict=True)
        }
        for line in _row(console, {column: texts[column] for column in widths}, widths):
            _print(console, line)
        if not bold:
            for column in columns:
                if column not in widths and texts[column].plain not in ("", "-"):
                    _print_below(console, column, texts[column], width)


def draw_fields(
    console: Console, fields: Sequence[tuple[str, str]], *, width: int | None, label_width: int
) -> None:
    """Print a text after each label; the lines of a text begin in the same column.

    Without a `width` (in cells), each text is one line.
    """
    for label, text in fields:
        longest_word = max(map(cell_len, text.split()), default=1)
        room = max((width or 0) - label_width, longest_word) if width else max(1, cell_len(text))
        for number, line in enumerate(Text(text).wrap(console, room) or [Text()]):
            line.rstrip()
            head = label if number == 0 else ""
            _print(console, Text(f"{head:<{label_width}}").append_text(line))


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> dict[str, int]:
    """The width of each column that stays in the table."""
    cells = {
        column: [column, *(row[index] for row in rows)] for index, column in enumerate(columns)
    }
    natural = {
        column: max(cell_len(line) for text in texts for line in text.split("\n"))
        for column, texts in cells.items()
    }
    if width is None:
        return natural
    longest_words = {
        column: max(cell_len(word) for text in texts for word in text.split() or [""])
        for column, texts in cells.items()
    }
    for count in range(len(columns), 1, -1):
        for chosen in combinations(columns, count):  # those that keep the first columns come first
            widths = {column: natural[column] for column in chosen}
            if _total(widths) <= width:
                return widths
            widest = max(chosen, key=lambda column: natural[column])
            room = width - _total(widths) + natural[widest]
            least = _LEAST_FIRST if widest == columns[0] else min(_LEAST, natural[widest] // 2)
            if room >= max(least, longest_words[widest]):
                return {**widths, widest: room}
    first = columns[0]
    return {first: max(min(width, natural[first]), longest_words[first])}


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1)


def _row(console: Console, cells: Mapping[str, Text], widths: Mapping[str, int]) -> Iterator[Text]:
    """The lines of one row."""
    wrapped = {
        column: text.wrap(console, max(1, widths[column]), no_wrap=False) if text.plain else [text]
        for column, text in cells.items()
    }
    for number in range(max(map(len, wrapped.values()))):
        line = Text()
        for column, parts in wrapped.items():
            part = parts[number].copy() if number < len(parts) else Text()
            part.rstrip()
            line.append_text(part)
            line.append(" " * (widths[column] + _GAP - part.cell_len))
        line.rstrip()
        yield line


def _print_below(console: Console, column: str, text: Text, width: int | None) -> None:
    """Print the text of a column under its row."""
    labelled = Text(f"{column}: ", style="bold").append_text(text)
    room = max(1, (width or labelled.cell_len) - len(_INDENT))
    longest_word = max(cell_len(word) for word in labelled.plain.split())
    for line in labelled.wrap(console, max(room, longest_word)):
        line.rstrip()
        _print(console, Text(_INDENT).append_text(line))


def _print(console: Console, line: Text) -> None:
    console.print(line, soft_wrap=True)

"""Prints the results of commands as tables, JSON or YAML, and their progress and errors."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import MappingProxyType
from typing import Any

import yaml
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from fairlead.common.progress import Progress

FORMATS = ("table", "json", "yaml")


def emit(data: Any, output: str, table: Callable[[Console], None]) -> None:
    """Print `data` in the format `output`; `table` draws it for people."""
    if output == "json":
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    elif output == "yaml":
        sys.stdout.write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    else:
        table(console())


def rows(
    title: str | None,
    columns: Sequence[str],
    lines: Sequence[Mapping[str, Any]],
    styles: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[Console], None]:
    """A function that draws `lines` as a table. `columns` are keys of each line, `styles` are
    rich's, by column.
    """

    def draw(target: Console) -> None:
        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            box=None,
            header_style="bold",
            pad_edge=False,
        )
        for column in columns:
            table.add_column(column.upper(), overflow="fold", style=styles.get(column))
        for line in lines:
            table.add_row(*(_cell(line.get(column)) for column in columns))
        target.print(table)

    return draw


def line(text: str = "") -> None:
    """Print one line of a result unchanged."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """Print a remark to stderr."""
    sys.stderr.write(text + "\n")


def warning(text: str) -> None:
    """Print a warning to stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print("[bold yellow]warning:[/] ", end="")
    note(text)


def error(text: str) -> None:
    """Print an error to stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print("[bold red]error:[/] ", end="")
    note(text)


def console() -> Console:
    """The console for results: with colours on a terminal, and without cut lines elsewhere."""
    return (
        Console(highlight=False, markup=False)
        if sys.stdout.isatty()
        else Console(width=200, highlight=False, markup=False)
    )


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress on stderr: bars on a terminal, elsewhere a line for each new state."""
    if not sys.stderr.isatty():
        yield plain()
        return
    columns = (SpinnerColumn(), TextColumn("{task.fields[name]}"), TextColumn("{task.description}"))
    with Bars(
        *columns,
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        yield _Bars(bars)


def plain() -> Progress:
    """A progress listener that prints a line for each new state, for work that also prints."""
    return _Lines()


class _Lines(Progress):
    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        self._lock = Lock()

    def update(self, name: str, state: str, *, done: int = 0, total: int = 0) -> None:
        quarter = f" {done * 4 // total * 25}%" if done < total else ""
        with self._lock:
            if self._last.get(name) != state + quarter:
                self._last[name] = state + quarter
                note(f"{name}: {state}{quarter}")

    def warn(self, message: str) -> None:
        with self._lock:
            warning(message)


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
        self._bars.console.print(Text.assemble(("warning: ", "bold yellow"), message))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)

"""What decisions are made from, where it is in files and at URLs."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

from fairlead.common import yaml_files
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.placement import cached_urls, decisions
from fairlead.placement.decisions import Inputs

_URLS = 30.0
"""Seconds after which URLs are asked again."""


class FileInputs:
    """Manifests in files and folders, and the data of files and URLs."""

    def __init__(self, paths: Sequence[Path], data_sources: Sequence[str]) -> None:
        """Raises UsageError for standard input, which cannot be read twice."""
        if yaml_files.STDIN in paths:
            raise UsageError("--watch cannot read standard input again: name a file or a folder")
        self._paths = paths
        self._data_sources = data_sources

    def read(self, progress: Progress) -> Inputs:
        """Everything as it is now. Raises InputError, UsageError."""
        return decisions.read(self._paths, self._data_sources, progress=progress)

    def carried_out(self) -> None:
        """Nothing: decisions on files are only shown."""

    def stamp(self) -> Hashable:
        """What differs when a file has changed, or when URLs have to be asked again."""
        urls = [each for each in self._data_sources if cached_urls.is_url(each)]
        data = [Path(each) for each in self._data_sources if each not in urls]
        turn = int(time.monotonic() / _URLS) if urls else 0
        return turn, file_stamps([*self._paths, *data])

    def wait(self, seconds: float) -> None:
        """Wait until something may have changed, for up to so many seconds."""
        time.sleep(seconds)


def file_stamps(paths: Sequence[Path]) -> Hashable:
    """What differs once a file of these files and folders has changed, come or gone."""
    return tuple(stamp for path in paths for stamp in _stamps(path))


def _stamps(path: Path) -> Iterator[tuple[str, int, int, int]]:
    for file in sorted(path.rglob("*")) if path.is_dir() else (path,):
        try:
            state = file.stat()
        except OSError:
            continue
        yield str(file), state.st_mtime_ns, state.st_size, state.st_ino

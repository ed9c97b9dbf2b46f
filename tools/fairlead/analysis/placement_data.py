"""Reads the data of clusters and customers from files and URLs, for `fairlead place` and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common import cached_urls, files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress

_ANSWER = Path("the answer")
"""How messages name what came by a URL, which stands before."""


def read(sources: Sequence[str], progress: Progress) -> dict[str, Any]:
    """The data of all sources, which are files and http(s) URLs. What two of them say differently,
    the later one decides; mappings are merged.

    If a URL has no good answer, the last good one counts, with a warning. Raises InputError.
    """
    merged: dict[str, Any] = {}
    for source in sources:
        if cached_urls.is_url(source):
            data, problem = cached_urls.read(source, lambda text: _data(text, _ANSWER))
            if problem:
                progress.warn(problem)
        else:
            path = Path(source)
            data = _data(files.read_text(path), files.shown(path))
        merged = _merged(merged, data)
    return merged


def _data(text: str, path: Path) -> dict[str, Any]:
    first, *further = files.parse_yaml(text, path)
    if further or not isinstance(first.value, dict) or "placement" not in first.value:
        raise InputError(
            path,
            "has no data of clusters: write one document with `placement` at its top, and in that "
            "`clusters` and `customers`",
        )
    return first.value


def _merged(earlier: Any, later: Any) -> Any:
    if not (isinstance(earlier, Mapping) and isinstance(later, Mapping)):
        return later
    return {
        key: _merged(earlier[key], later[key])
        if key in earlier and key in later
        else later.get(key, earlier.get(key))
        for key in {**earlier, **later}
    }

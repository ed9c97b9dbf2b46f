"""Reads the data of clusters and customers from files and URLs, for `fairlead place` and others."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common import paths, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.placement import cached_urls

_ANSWER = Path("the answer")
"""How messages name what came by a URL, which stands before."""
_SIMILAR = 0.8
"""How similar an unknown key is to the one that was meant. By difflib's own limit of 0.6, one could
mean `price` by `provider`."""

_REQUIREMENTS = {
    *("capacity", "certifications", "clusters", "cordoned", "customers", "jurisdictions"),
    *("effect", "key", "taints", "value"),
}
"""The keys without which a decision would allow more."""
_UNREAD = "has the key {!r}, which is not read: did you mean {!r}?"
_READ_BY_YAML = {
    "false": "false, such as an unquoted no",
    "null": "null",
    "true": "true, such as an unquoted yes",
}

_Location = tuple[str | int, ...]


def read(sources: Sequence[str], progress: Progress) -> dict[str, Any]:
    """The data of all sources, which are files and http(s) URLs. What two of them say differently,
    the later one decides; mappings are merged.

    If a URL has no good answer, the last good one counts, with a warning. Keys that look misspelt
    are warnings, too, because data may have further fields; errors, if they would drop a
    requirement. Raises InputError.
    """
    merged: dict[str, Any] = {}
    for source in sources:
        if cached_urls.is_url(source):
            document, problem = cached_urls.read(source, lambda text: _document(text, _ANSWER))
            if problem:
                progress.warn(problem)
            name = cached_urls.shown(source)
        else:
            path = Path(source)
            document = _document(yaml_files.read_text(path), yaml_files.shown(path))
            name = str(document.path)
        _warn(document, name, progress)
        merged = _merged(merged, document.value)
    return merged


def check(document: yaml_files.Document, name: str, progress: Progress) -> None:
    """Warn of keys that look misspelt; `name` is that of the source in messages. Raises InputError
    for one that would drop a requirement, and for names that are no text.
    """
    _require_sound(document)
    _warn(document, name, progress)


def _warn(document: yaml_files.Document, name: str, progress: Progress) -> None:
    for (first, further), meant in _misspelt(document):
        at = _place(name, document.line(first))
        more = f" (and {further} more)" if further else ""
        progress.warn(f"{at}: {_shown(first[:-1])}{more} {_UNREAD.format(first[-1], meant)}")


def _document(text: str, path: Path) -> yaml_files.Document:
    first, *further = yaml_files.parse_yaml(text, path)
    if further or not isinstance(first.value, dict) or "placement" not in first.value:
        raise InputError(
            path,
            "has no data of clusters: write one document with `placement` at its top, and in that "
            "`clusters` and `customers`",
        )
    _require_sound(first)
    return first


def _require_sound(document: yaml_files.Document) -> None:
    """Raises InputError for what no policy could read, or would read as something else."""
    for location, value in _parts(document.value, ()):
        # YAML has numbers that JSON, and so OPA, does not have.
        if isinstance(value, float) and not math.isfinite(value):
            raise document.error(f"{_shown(location)} is {value}: write a number", location)
        for key in value if isinstance(value, Mapping) else ():
            if read := _READ_BY_YAML.get(json.dumps(key).strip('"')):
                raise document.error(
                    f"{_shown(location)} has a key that YAML reads as {read}: quote it", location
                )
    problems = [
        (document.line(first), f"{_shown(first[:-1])} {_UNREAD.format(first[-1], meant)}")
        for (first, _), meant in _misspelt(document)
        if meant in _REQUIREMENTS
    ]
    if problems:
        (line, text), *others = problems
        raise InputError(document.path, text, line=line, further=others)


def _parts(value: Any, location: _Location) -> Iterator[tuple[_Location, Any]]:
    """All values, each with its place."""
    yield location, value
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _parts(child, (*location, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from _parts(child, (*location, number))


def _misspelt(document: yaml_files.Document) -> Iterator[tuple[tuple[_Location, int], str]]:
    """Each key that placement does not know and that looks like one that it knows: its first place
    and how many more there are, and the key that is meant.
    """
    schema = json.loads((paths.root() / "tools" / "schemas" / "placement_data.json").read_text())
    places: dict[tuple[str, str], list[_Location]] = {}
    for location, keys in _unknown(document.value["placement"], schema, ("placement",)):
        if close := difflib.get_close_matches(str(location[-1]), keys, 1, _SIMILAR):
            places.setdefault((str(location[-1]), close[0]), []).append(location)
    for (_, meant), (first, *further) in places.items():
        yield (first, len(further)), meant


def _unknown(
    value: Any, schema: Mapping[str, Any], location: _Location
) -> Iterator[tuple[_Location, list[str]]]:
    """The place of each key that the JSON schema does not name, with the keys that it names there.
    Where it allows no others, the policies refuse them.
    """
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from _unknown(element, schema.get("items", {}), (*location, number))
    if not isinstance(value, Mapping):
        return
    properties = schema.get("properties", {})
    further = schema.get("additionalProperties", True)
    for key, child in value.items():
        path = (*location, key)
        if key in properties:
            yield from _unknown(child, properties[key], path)
        elif isinstance(further, Mapping):
            yield from _unknown(child, further, path)
        elif further:
            yield path, list(properties)


def _place(name: str, line: int | None) -> str:
    return f"{name}:{line}" if line else name


def _shown(location: _Location) -> str:
    return ".".join(map(str, location))


def _merged(earlier: Any, later: Any) -> Any:
    if not (isinstance(earlier, Mapping) and isinstance(later, Mapping)):
        return later
    return {
        key: _merged(earlier[key], later[key])
        if key in earlier and key in later
        else later.get(key, earlier.get(key))
        for key in {**earlier, **later}
    }

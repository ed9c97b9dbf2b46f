"""Reads the data of clusters and customers from files and URLs, for `fairlead place` and others."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairlead.common import paths, texts, yaml_files
from fairlead.common.errors import InputError
from fairlead.common.progress import Progress
from fairlead.placement import cached_urls
from fairlead.placement.manifest_kinds import mapping

_ANSWER = Path("the answer")
"""How messages name what came by a URL, which stands before."""
_SIMILAR = 0.8
"""How similar an unknown key is to the one that was meant. By difflib's own limit of 0.6, one could
mean `price` by `provider`."""

_REQUIREMENTS = {
    *("capacity", "certifications", "clusters", "cordoned", "customers", "jurisdictions"),
    *("effect", "key", "taints", "value", "weight"),
}
"""The keys without which a decision would allow more."""
_MEANT = "has the key {!r}, which is not read: did you mean {!r}?"
_UNREAD = "has the key {!r}, which is not read: write it below labels, if it is no requirement"
_SHORTEST, _LETTERS = 4, 2
"""The letters of the shortest key that stands for a longer one, such as `cert`, and how many more
or less another one has."""
_NAMED = 5
"""The most unknown clusters that a warning names: prices may be those of all regions."""
_READ_BY_YAML = {
    "false": "false, such as an unquoted no",
    "null": "null",
    "true": "true, such as an unquoted yes",
}

_Location = tuple[str | int, ...]


def read(sources: Sequence[str], progress: Progress) -> dict[str, Any]:
    """The data of all sources, which are files and http(s) URLs. What two of them say differently,
    the later one decides; mappings are merged.

    If a URL has no good answer, the last good one counts, with a warning. Keys that are not read
    are warnings, too, because data may have further fields; errors, if they look like requirements.
    Raises InputError.
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
    _warn_of_unknown_clusters(merged, progress)
    return merged


def check(document: yaml_files.Document, name: str, progress: Progress) -> None:
    """Warn of keys that are not read; `name` is that of the source in messages. Raises InputError
    for one that looks like a requirement, and for names that are no text.
    """
    _require_sound(document)
    _warn(document, name, progress)
    _warn_of_unknown_clusters(document.value, progress)


def _warn_of_unknown_clusters(data: Mapping[str, Any], progress: Progress) -> None:
    """Warn of transfers and applications of clusters that are not among the clusters."""
    placement = mapping(data.get("placement"))
    clusters = mapping(placement.get("clusters"))
    transfer = mapping(placement.get("transfer"))
    running = [
        mapping(each).get("clusters") for each in mapping(placement.get("applications")).values()
    ]
    names_by_field = {
        "transfer": [*transfer, *(name for each in transfer.values() for name in mapping(each))],
        "applications": [
            str(name) for each in running if isinstance(each, list | Mapping) for name in each
        ],
    }
    for field, names in names_by_field.items() if clusters else ():
        if unknown := [name for name in dict.fromkeys(names) if name not in clusters]:
            progress.warn(
                f"placement.{field} has clusters that placement.clusters does not have: "
                f"{texts.first(unknown, _NAMED)}"
            )


def _warn(document: yaml_files.Document, name: str, progress: Progress) -> None:
    for (first, further), meant in _unread(document):
        at = _place(name, document.line(first))
        more = f" (and {further} more)" if further else ""
        progress.warn(f"{at}: {_shown(first[:-1])}{more} {_problem(first[-1], meant)}")


def _document(text: str, path: Path) -> yaml_files.Document:
    first, *further = yaml_files.parse_yaml(text, path)
    if further or not isinstance(first.value, dict) or "placement" not in first.value:
        raise InputError(
            path,
            "has no data of clusters: write one document with `placement` at its top, and in that "
            "`clusters` and `customers`",
        )
    for key in first.value.keys() & _schema()["properties"].keys():
        raise InputError(
            path,
            f"has the key {key!r} beside placement: write it below placement",
            line=first.line((key,)),
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
        (document.line(first), f"{_shown(first[:-1])} {_problem(first[-1], meant)}")
        for (first, _), meant in _unread(document)
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


def _schema() -> dict[str, Any]:
    file = paths.root() / "tools" / "schemas" / "placement_data.json"
    return dict(json.loads(file.read_text()))


def _unread(document: yaml_files.Document) -> Iterator[tuple[tuple[_Location, int], str]]:
    """Each key that placement does not know and that looks like one that it knows, or stands where
    requirements do: its first place and how many more there are, and the key that is meant, or "".
    """
    places: dict[tuple[str, str], list[_Location]] = {}
    for location, keys in _unknown(document.value["placement"], _schema(), ("placement",)):
        meant = _meant(str(location[-1]), keys)
        if meant or "labels" in keys:
            places.setdefault((str(location[-1]), meant), []).append(location)
    for (_, meant), (first, *further) in places.items():
        yield (first, len(further)), meant


def _meant(key: str, keys: Sequence[str]) -> str:
    """The one of `keys` that an unknown key looks like; "" if it looks like none.

    It finds all that OPA refuses, and keys whose letters differ.
    """
    lowered = key.lower()
    close = difflib.get_close_matches(lowered, keys, 1, _SIMILAR)
    return next(iter([*close, *(known for known in keys if _resembles(lowered, known))]), "")


def _resembles(key: str, known: str) -> bool:
    """The rule of policies/lib/spelling, for a key in lower case."""
    stem, end = key.removesuffix("s"), max(5, len(known) - 7)
    return (
        key.endswith(known)
        or (len(stem) >= _SHORTEST and known.startswith(stem))
        or (
            abs(len(key) - len(known)) <= _LETTERS
            and key[:1] == known[:1]
            and (key.startswith(known[:end]) or key.endswith(known[-end:]))
        )
    )


def _problem(key: str | int, meant: str) -> str:
    return _MEANT.format(key, meant) if meant else _UNREAD.format(key)


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

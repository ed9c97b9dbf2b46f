"""Finds a context in kubeconfigs, and keeps a private kubeconfig (mode 0600) with that context
alone.

A copy holds a cluster's credentials. It is removed when its cluster ends, or when Fairlead is
uninstalled there.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from fairlead.common import atomic_files, paths, yaml_files
from fairlead.common.errors import InputError, UsageError
from fairlead.kube.kubeconfig_copies import COPIED_FROM

_COPY = "kubeconfig"
# The files of a copy's folder: an embedded cluster may have a folder with such a name, too.
_CONTENTS = {_COPY, "opa-ca.crt"}
_FOLDER = re.compile(r"context-([a-z0-9-]+-)?[0-9a-f]{8}")


def copied(context: str | None, kubeconfig: Path | None) -> tuple[str, Path]:
    """The name of the context, and a kubeconfig (0600) with this context only; the arguments
    are those of remote.of_context. Raises UsageError, InputError.
    """
    name, document = of(context, kubeconfig)
    prefix = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40].strip("-")
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    path = paths.state("-".join(filter(None, ("context", prefix, digest)))) / _COPY
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    atomic_files.write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
    return name, path


def forget(kubeconfig: Path) -> None:
    """Remove each copy of a context whose API server is that of `kubeconfig`, as its cluster
    ends. Raises OSError.
    """
    if (server := _server(kubeconfig)) is not None:
        for copy in _copies():
            if _server(copy) == server:
                _remove(copy)


def forget_copy(kubeconfig: Path) -> None:
    """Remove `kubeconfig`, if it is a copy. Raises OSError."""
    if kubeconfig in _copies():
        _remove(kubeconfig)


def of(context: str | None, kubeconfig: Path | None) -> tuple[str, dict[str, Any]]:
    """The name of the context, and the document of a kubeconfig with this context only; arguments
    and errors are those of `copied`.
    """
    return minified(context, _sources(kubeconfig))


def leads_to(context: str | None, kubeconfig: Path | None, other_kubeconfig: Path) -> bool:
    """Whether the context leads to the API server of the kubeconfig `other_kubeconfig`, by its URL
    and its CA, as another cluster may have had the same port; and as the same user, because whoever
    chose another one does not want to act as this one. The first two arguments are those of
    `copied`, and so are the errors.
    """
    _, document = of(context, kubeconfig)
    theirs = _read(other_kubeconfig)
    address = _address(document)
    return (
        address is not None
        and address == _address(theirs)
        and _credentials(document) == _credentials(theirs)
    )


def embedded_folder(context: str | None, kubeconfig: Path | None) -> Path | None:
    """The folder of the embedded cluster whose own kubeconfig has the context, in any checkout;
    None if it is another kind of kubeconfig. Raises as `copied`.
    """
    for source in _sources(kubeconfig):
        folder = source.resolve().parent
        if (folder / "processes.json").exists() and leads_to(context, kubeconfig, source):
            return folder
    return None


def _copies() -> Iterator[Path]:
    for folder in sorted(paths.state(_COPY).parent.glob("context-*")):
        if _FOLDER.fullmatch(folder.name) and {path.name for path in folder.iterdir()} <= _CONTENTS:
            yield folder / _COPY


def _remove(copy: Path) -> None:
    for name in _CONTENTS:
        copy.with_name(name).unlink(missing_ok=True)
    with suppress(OSError):  # another command has just made it again
        copy.parent.rmdir()


def _server(kubeconfig: Path) -> str | None:
    """The URL of the only cluster of a kubeconfig; None if there is no such file."""
    cluster = _cluster(_read(kubeconfig))
    return str(cluster["server"]) if "server" in cluster else None


def _address(document: Any) -> tuple[str, bytes] | None:
    """The URL and the CA of the only cluster of a kubeconfig; None if it has none."""
    cluster = _cluster(document)
    try:
        if "certificate-authority" in cluster:
            ca = Path(cluster["certificate-authority"]).read_bytes()
        else:
            ca = b64decode(cluster["certificate-authority-data"])
        return str(cluster["server"]), ca
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _credentials(document: Any) -> dict[str, bytes | str]:
    """What the only user of a kubeconfig proves itself by; files and data count as the same."""
    try:
        user = dict(document["users"][0]["user"])
        credentials: dict[str, bytes | str] = {}
        for key, value in user.items():
            if key.endswith("-data"):
                credentials[key.removesuffix("-data")] = b64decode(value)
            elif key in ("client-certificate", "client-key"):
                credentials[key] = Path(value).read_bytes()
            else:
                credentials[key] = str(value)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return {}
    return credentials


def _cluster(document: Any) -> dict[str, Any]:
    """The only cluster of a kubeconfig; empty if it has none."""
    try:
        return dict(document["clusters"][0]["cluster"])
    except (ValueError, KeyError, IndexError, TypeError):
        return {}


def _read(kubeconfig: Path) -> Any:
    """The document; None if there is none."""
    try:
        return yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None


def minified(context: str | None, sources: Sequence[Path]) -> tuple[str, dict[str, Any]]:
    """The name of the context and a kubeconfig with only what it needs, with absolute paths, and
    the file that each section comes from.

    Of several entries with one name the first one counts, and an empty file has none, as for
    kubectl. Raises UsageError, InputError.
    """
    by_section: dict[str, dict[str, tuple[Path, Any]]] = {
        "contexts": {},
        "clusters": {},
        "users": {},
    }
    current = None
    for source in sources:
        text = yaml_files.read_text(source, may_be_blank=True)
        if yaml_files.first_document(text, source, above=0) is None:
            continue
        document = yaml_files.parse_yaml(text, source)[0].value
        if not isinstance(document, dict):
            raise InputError(source, "is not a kubeconfig: name another file by --kubeconfig")
        current = current or document.get("current-context")
        for section, entries in by_section.items():
            for entry in document.get(section) or ():
                if not isinstance(entry, dict) or "name" not in entry:
                    raise InputError(
                        source, f"is not a kubeconfig: an entry of {section} has no name"
                    )
                entries.setdefault(str(entry["name"]), (source, entry.get(section[:-1]) or {}))
    names = ", ".join(sorted(by_section["contexts"])) or "none"
    context_name = context or current
    if not context_name:
        raise UsageError(
            f"no context is the current one: choose one by --context (there are: {names})"
        )
    if context_name not in by_section["contexts"]:
        places = ", ".join(map(str, sources)) or "any kubeconfig"
        raise UsageError(
            f"no context {context_name!r} in {places} (there are: {names}): choose one of them by "
            "--context"
        )
    source, inner = by_section["contexts"][context_name]
    sections = {"contexts": [{"name": context_name, "context": inner}]}
    origins = {"contexts": str(source.absolute())}
    for section in ("clusters", "users"):
        name = str(inner.get(section[:-1]))
        if name not in by_section[section]:
            raise InputError(
                source,
                f"context {context_name!r} names the {section[:-1]} {name!r}, which is not there",
            )
        origin, entry = by_section[section][name]
        origins[section] = str(origin.absolute())
        sections[section] = [
            {"name": name, section[:-1]: _absolute(entry, origin.absolute().parent)}
        ]
    return str(context_name), {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context_name,
        **sections,
        "extensions": [{"name": COPIED_FROM, "extension": origins}],
    }


def _sources(kubeconfig: Path | None) -> list[Path]:
    """The kubeconfigs to read. Raises InputError if a named one does not exist, UsageError if
    there is none.
    """
    if kubeconfig is not None:
        return [kubeconfig]
    paths = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    usual = paths or [Path.home() / ".kube" / "config"]
    existing = [path for path in usual if path.exists()]
    if not existing:
        raise UsageError(
            f"no kubeconfig at {', '.join(map(str, usual))}: name one by --kubeconfig or KUBECONFIG"
        )
    return existing


def _absolute(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A cluster or user, with absolute paths instead of those relative to its kubeconfig."""
    rewritten = dict(entry)
    for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        if rewritten.get(key):
            rewritten[key] = str(folder / rewritten[key])
    command = (rewritten.get("exec") or {}).get("command", "")
    if os.sep in command:  # else it is a program on the PATH
        rewritten["exec"] = {**rewritten["exec"], "command": str(folder / command)}
    return rewritten

"""Finds the sources of Go modules: those that a program is built from, for the files that it needs
besides, and others."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from threading import Event

from fairlead.common.errors import FairleadError
from fairlead.common.progress import Progress
from fairlead.programs import processes
from fairlead.programs.toolchain import golang
from fairlead.programs.toolchain.recipe import Recipe


def folder(recipe: Recipe, path: str, progress: Progress) -> Path:
    """The folder of the Go module `path` in the version and with the checksum that the recipe pins.
    Go downloads it if its cache lacks it. Raises FairleadError.
    """
    go = golang.provide(recipe.go, progress, Event())
    return _downloaded(go, recipe.source, path, f"{path} {recipe.version}")


def released(path: str, version: str, progress: Progress) -> Path:
    """The folder of a release of the Go module `path` (v1.2.3), whose checksum Go's database
    vouches for. Go downloads it if its cache lacks it. Raises FairleadError.
    """
    go = golang.provide((1,), progress, Event())
    with tempfile.TemporaryDirectory() as nowhere:  # no go.mod is read there
        return _downloaded(go, Path(nowhere), f"{path}@{version}", f"{path} {version}")


def _downloaded(go: golang.Go, folder: Path, module: str, title: str) -> Path:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        code = processes.run(
            [str(go.path), "mod", "download", "-json", module],
            cwd=folder,
            env=go.environment(Path(temporary)),
            stop=Event(),
            line=lines.append,
        )
    text = "\n".join(lines)
    try:
        if code:
            raise ValueError(text)
        return Path(json.JSONDecoder().raw_decode(text, text.index("{"))[0]["Dir"])
    except (ValueError, KeyError) as error:
        raise FairleadError(
            f"the sources of {title} could not be downloaded: check the network, HTTPS_PROXY and "
            f"`go env GOPROXY`. Then repeat.\n{text}"
        ) from error

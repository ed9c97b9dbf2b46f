"""Finds the sources that a program is built from, for the files that it needs besides."""

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
    stop = Event()
    go = golang.provide(recipe.go, progress, stop)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        code = processes.run(
            [str(go.path), "mod", "download", "-json", path],
            cwd=recipe.source,
            env=go.environment(Path(temporary)),
            stop=stop,
            line=lines.append,
        )
    text = "\n".join(lines)
    try:
        if code:
            raise ValueError(text)
        return Path(json.JSONDecoder().raw_decode(text, text.index("{"))[0]["Dir"])
    except (ValueError, KeyError) as error:
        raise FairleadError(
            f"the sources of {path} {recipe.version} could not be downloaded: check the network, "
            f"HTTPS_PROXY and `go env GOPROXY`. Then repeat.\n{text}"
        ) from error

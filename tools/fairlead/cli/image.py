"""`fairlead image`: build the image of OPA and of its sidecar."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.programs import images


@click.command()
@options.settings
@options.output
def command(settings_file: Path | None, output: str) -> None:
    """Build the image of OPA and of `fairlead sync` with Docker. Its name comes from the
    settings or FAIRLEAD_IMAGE.

    BASE_IMAGE names the Debian 12 image to build on, DOCKER_BUILD_NETWORK the network of the build.
    """
    name = options.load(settings_file).images.fairlead
    with out.progress() as progress:
        size = images.sidecar(name, progress)
    data = {"image": name, "bytes": size}
    out.emit(data, output, lambda console: console.print(f"{name}  {size / 1e6:.1f} MB"))

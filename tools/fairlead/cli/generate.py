"""`fairlead generate`: write the files that are made from the policies' METADATA."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import atomic_files
from fairlead.policy import generated


@click.command()
@options.output
def command(output: str) -> None:
    """Write the checkout's files that are made from the METADATA of its policies: the table of the
    intents, the bundle's manifest, the defaults of parameters, and docs/policies.md.

    `make generate` also writes the kustomize base.
    """
    outdated = generated.outdated()
    atomic_files.write_all({path: generated.texts()[path] for path in outdated})
    out.files(outdated, output)

"""`python -m lab generate`: write the files that a checkout makes of its policies and settings."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import atomic_files
from fairlead.deployment import review_limits
from fairlead.kube import served_kinds
from fairlead.policy import generated
from lab import kinds_of_server, pictures, project_tables
from lab.engines import golden, matrix


@click.command()
@click.option("--picture", is_flag=True, help="Also run `make demo`, and draw docs/demo.svg.")
@click.option("--kinds", is_flag=True, help="Also start an API server, and list its kinds.")
@options.output
def command(picture: bool, kinds: bool, output: str) -> None:
    """Write what is made of all of the project's policies: the tables of the intents and of
    docs/engines.md, the list in docs/policies.md, the defaults of parameters; and the shapes by
    which OPA's plugin counts values, and what each engine renders of the settings in
    testdata/golden.

    `fairlead generate` writes the pages of the policies.
    """
    pairs = golden.texts()
    listed = {served_kinds.file(): kinds_of_server.pinned()} if kinds else {}
    outdated = generated.outdated(
        {**project_tables.texts(), **matrix.texts(), **review_limits.texts(), **pairs, **listed}
    )
    atomic_files.write_all(outdated)
    superfluous = golden.superfluous(pairs)
    for path in superfluous:
        path.unlink()
    out.files([*outdated, *superfluous, *([pictures.demo()] if picture else [])], output)

"""`fairlead new`: create a new policy in a checkout."""

from __future__ import annotations

import click

from fairlead.cli import options
from fairlead.cli import output as out
from fairlead.common import paths
from fairlead.policy import new_policy


@click.group()
def command() -> None:
    """Create something new in a checkout, with its test and all registrations."""


@command.command()
@click.argument("name")
@options.output
def policy(name: str, output: str) -> None:
    """Write the policy NAME: its folder, a test, cases, and its registrations. The result passes
    `make test`.

    NAME is the intent, in lower-case words joined by '-'. Replace the rules of the example, then
    run `make kustomize`.
    """
    checkout = paths.root()
    rows = [{"file": str(path.relative_to(checkout))} for path in new_policy.policy(name, checkout)]
    out.emit(rows, output, out.rows(None, ("file",), rows))
    out.note("next: replace the rules of the example, then run `make kustomize` and `make test`")

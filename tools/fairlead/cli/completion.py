"""`fairlead completion`: print the script that makes a shell complete commands."""

from __future__ import annotations

import click
from click import shell_completion

from fairlead.cli import output as out

_VARIABLE = "_FAIRLEAD_COMPLETE"
"""The variable by which the script asks for completions; click derives it from the program's
name."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and names of clusters in SHELL.

    \b
    bash: eval "$(fairlead completion bash)"    in ~/.bashrc
    zsh:  eval "$(fairlead completion zsh)"     in ~/.zshrc
    fish: fairlead completion fish | source     in ~/.config/fish/config.fish
    """
    script = shell_completion.get_completion_class(shell)
    assert script is not None  # noqa: S101 - click has these three
    root = context.find_root().command
    out.line(script(root, {}, "fairlead", _VARIABLE).source())

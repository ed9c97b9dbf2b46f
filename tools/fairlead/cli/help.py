"""`fairlead help`: show the help of a command."""

from __future__ import annotations

import click

from fairlead.cli import output as out


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or of `fairlead`; the same as `--help`."""
    shown = context.find_root()
    for word in words:
        if not isinstance(shown.command, click.Group):
            raise click.UsageError(f"`{shown.command_path}` has no commands of its own.", shown)
        name, subcommand, _ = shown.command.resolve_command(shown, [word])
        assert subcommand is not None  # noqa: S101 - resolve_command raises otherwise
        shown = click.Context(
            subcommand, info_name=name, parent=shown, **subcommand.context_settings
        )
    out.line(shown.get_help())

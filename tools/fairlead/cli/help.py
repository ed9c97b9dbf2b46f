"""`fairlead help`: show the help of a command."""

from __future__ import annotations

import click

from fairlead.cli import output as out


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--all", "lists_all", is_flag=True, help="List all commands, in groups.")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...], lists_all: bool) -> None:
    """Show the help of COMMAND, or of `fairlead`; the same as `--help`."""
    current = context.find_root()
    current.meta[out.ALL_COMMANDS] = lists_all
    for word in words:
        if not isinstance(current.command, click.Group):
            raise click.UsageError(f"`{current.command_path}` has no commands of its own.", current)
        name, subcommand, _ = current.command.resolve_command(current, [word])
        assert subcommand is not None  # noqa: S101 - resolve_command raises otherwise
        current = click.Context(
            subcommand, info_name=name, parent=current, **subcommand.context_settings
        )
    out.line(current.get_help())

"""`fairlead help`: show the help of a command."""

from __future__ import annotations

import click

from fairlead.cli import output as out


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of COMMAND, or of `fairlead`; the same as `--help`."""
    group_context = context.find_root()
    for word in words:
        if not isinstance(group_context.command, click.Group):
            raise click.UsageError(
                f"`{group_context.command_path}` has no commands of its own.", group_context
            )
        name, subcommand, _ = group_context.command.resolve_command(group_context, [word])
        assert subcommand is not None  # noqa: S101 - resolve_command raises otherwise
        group_context = click.Context(
            subcommand, info_name=name, parent=group_context, **subcommand.context_settings
        )
    out.line(group_context.get_help())

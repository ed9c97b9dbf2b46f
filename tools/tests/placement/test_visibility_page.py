"""What docs/visibility.md shows is what the commands print, and it names all queries."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from fairlead.cli.placement import query, what_if
from fairlead.common import paths
from fairlead.placement import queries
from fairlead.settings.models import Settings

pytestmark = pytest.mark.lab

PAGE = (paths.root() / "docs" / "visibility.md").read_text()
SCENARIO = paths.root() / "testdata" / "placement"
COMMANDS: dict[str, click.Command] = {"query": query.command, "what-if": what_if.command}
PRINTED = re.findall(r"<!-- printed by: fairlead (\S+) (.*?) -->\n```\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("name", "arguments", "shown"), PRINTED)
def test_each_line_that_the_page_shows_is_printed(
    name: str, arguments: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCENARIO)
    result = CliRunner().invoke(COMMANDS[name], arguments.split(), standalone_mode=False)
    printed = iter(result.stdout.splitlines())
    assert [line for line in shown.splitlines() if line not in printed] == []


def test_the_page_shows_both_commands() -> None:
    assert {name for name, _, _ in PRINTED} == COMMANDS.keys()


def test_the_table_names_each_query_with_its_arguments() -> None:
    section = PAGE.partition("## Queries\n")[2].partition("\n### ")[0]
    table = dict(re.findall(r"^\| `([a-z][a-z-]+)` \| (.*?) \|", section, re.MULTILINE))
    known = queries.known(queries.policies(Settings()))
    assert table.keys() == {each.name for each in known}
    for each in known:
        named = set(re.findall(r"`(\w+)`", table[each.name])) - {"cpu"}
        assert named == {argument.name for argument in each.arguments}

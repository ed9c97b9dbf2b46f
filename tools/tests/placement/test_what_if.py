"""`fairlead what-if` compares real decisions of OPA before and after a change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead.cli.placement.what_if import command
from fairlead.common import paths
from fairlead.common.errors import UsageError

SCENARIO = paths.root() / "testdata" / "placement"
APPS = SCENARIO / "apps"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(
        command,
        ["--data", str(SCENARIO / "data.yaml"), *map(str, arguments)],
        standalone_mode=False,
        catch_exceptions=False,
    )


def compared(*arguments: str | Path) -> list[dict[str, Any]]:
    comparisons: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json").stdout)
    return comparisons


LOST = ("--cluster", "eu-frankfurt", "--without", "pci")


def test_only_what_changes_is_shown() -> None:
    comparisons = compared(*LOST, "-f", APPS)
    assert {each["namespace"] for each in comparisons} == {"alpenbank"}
    assert {each["name"] for each in comparisons} == {
        *("payments", "ledger", "statements", "branch-finder")
    }
    everything = compared(*LOST, "-f", APPS, "--all")
    assert len(everything) == 30
    assert [each for each in everything if each["changed"]] == comparisons


def test_a_comparison_as_json() -> None:
    result = run(*LOST, APPS / "alpenbank.yaml", "-o", "json")
    assert result.return_value == 1
    by_name = {each["name"]: each for each in json.loads(result.stdout)}
    statements = by_name["statements"]
    assert statements["kind"] == "Job"
    assert statements["changed"] is True
    assert statements["now"]["clusters"]["eu-frankfurt"]["replicas"] > 0
    assert statements["then"]["clusters"].keys() == {"eu-west-1"}
    assert statements["then"]["clusters"]["eu-west-1"]["replicas"] == 4
    assert statements["then"]["errors"] == {}
    assert by_name["payments"]["then"]["clusters"] == {}
    assert "no cluster" in by_name["payments"]["then"]["errors"]


def test_the_table_has_both_side_by_side() -> None:
    result = run(*LOST, APPS / "alpenbank.yaml")
    heading, *lines = result.stdout.splitlines()
    assert re.split(r"\s{2,}", heading) == [
        *("WORKLOAD", "NOW", "THEN", "COST NOW", "COST THEN", "ERRORS")
    ]
    cells = {line.split("  ")[0]: re.split(r"\s{2,}", line)[1:] for line in lines}
    now, then, cost_now, cost_then = filter(None, cells["Job alpenbank/statements"])
    assert float(cost_now) < float(cost_then)
    assert "eu-frankfurt: " in now
    assert then == "eu-west-1: 4"
    _, then, _, _, errors = cells["Deployment alpenbank/payments"]
    assert then == "no cluster"
    assert errors.startswith("no cluster: 1 of 6: ")
    assert "4 of 4 workloads change" in result.stderr


def test_if_all_have_clusters_the_exit_code_is_0() -> None:
    result = run(*LOST, APPS / "stadtwerke.yaml")
    assert result.return_value == 0
    assert result.stdout == ""
    assert "0 of " in result.stderr


def test_costs_are_shown_where_the_data_have_prices() -> None:
    prices = ("--price", "us-dallas=0.5", APPS / "medicare-plus.yaml")
    changed = [each for each in compared(*prices) if each["changed"]]
    assert changed
    for each in changed:
        assert 0 < each["now"]["cost"] < each["then"]["cost"]
    heading = run(*prices).stdout.splitlines()[0]
    assert heading.split() == ["WORKLOAD", "NOW", "THEN", "COST", "NOW", "COST", "THEN"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing changes"),
        (("--cluster", "eu-frankfurt"), "--cluster and --without belong together"),
        (("--without", "pci"), "--cluster and --without belong together"),
        (("--price", "eu-frankfurt"), "write CLUSTER=NUMBER"),
        (("--price", "=1"), "write CLUSTER=NUMBER"),
        (("--price", "eu-frankfurt=free"), "write CLUSTER=NUMBER"),
        (("--price", "eu-frankfurt=nan"), "the number from 0 to 1000000000"),
        (("--price", "eu-frankfurt=-1"), "the number from 0 to 1000000000"),
        (("--price", "a=1", "--price", "a/cpu=2"), "a has two prices of cpu"),
        (("--price", "mars=1"), 'cluster "mars" is not known: placement.clusters has asia-se-3'),
        (
            ("--cluster", "us-west-1", "--without", "pci"),
            'cluster "us-west-1" has no certification "pci" that it could lose: it has soc2',
        ),
    ],
)
def test_changes_with_a_mistake(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        run(*arguments, "-f", APPS)
    assert words in str(raised.value)
    assert raised.value.exit_code == 2

"""`fairlead access` refuses what makes no sense before it looks for a cluster, and shows times to
people."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fairlead.cli.operations import access
from fairlead.common.errors import UsageError

GRANT = ("grant", "a", "--for", "2h")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (GRANT, "give one role"),
        (("grant", "a", "--clusterrole", "b", "--user", "u"), "say for how long: --for 2h"),
        ((*GRANT, "--role", "b", "--clusterrole", "c"), "give one role"),
        ((*GRANT, "--role", "b", "--user", "u"), "--role is about a namespace"),
        ((*GRANT, "--clusterrole", "b"), "nobody would get the role"),
        ((*GRANT, "--clusterrole", "b", "--serviceaccount", "c"), "'c' is not NAMESPACE:NAME"),
        ((*GRANT[:3], "soon", "--clusterrole", "b", "--user", "u"), "'soon' is not a duration"),
        (
            (*GRANT, "--clusterrole", "b", "--user", "u", "--from", "noon"),
            "'noon' is not a time such as 2026-11-24T09:00",
        ),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(access.command, arguments)
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m 0s"),
        (7199, "1h 59m"),
        (86_400 * 3 + 60, "3d 0h"),
    ],
)
def test_what_is_left_has_two_units(seconds: float | None, text: str) -> None:
    assert access._left(seconds) == text


def test_a_time_that_no_calendar_has_is_shown_as_it_is_written() -> None:
    last = "9999-12-31T23:59:59-23:59"
    assert access._local(last) == last
    assert access._local("2026-11-21T10:00:00Z").startswith("2026-11-2")

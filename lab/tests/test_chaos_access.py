"""What chaos says of access that an observer saw."""

from __future__ import annotations

import pytest

from lab.chaos import access
from lab.chaos.access import Grant, Grants

STEADY = [float(second) / 2 for second in range(200)]
"""The API server always answers."""


def grants(*seen: tuple[float, float], revoked: float | None = None) -> Grants:
    """A grant from 10 to 20 of which somebody saw the access."""
    return Grants([Grant("alice", 10.0, 20.0, revoked, list(seen))], len(seen), STEADY)


@pytest.mark.parametrize(
    ("seen", "early", "late"),
    [
        ((), (), ()),
        (((10.0, 10.1), (19.9, 20.1), (22.0, 22.1)), (), ()),
        # The look began before the window, and its answer may be of a time in it.
        (((9.9, 10.0),), (), ()),
        (((9.8, 9.9),), ("alice: 0.100 s before its window",), ()),
        (((22.1, 22.2),), (), ("alice: 2.1 s after its window",)),
    ],
)
def test_access_outside_its_window_is_named(
    seen: tuple[tuple[float, float], ...], early: tuple[str, ...], late: tuple[str, ...]
) -> None:
    before, after = access.verdicts(grants(*seen), 2.0)
    assert (before.violations, after.violations) == (early, late)
    assert (before.checked, after.checked) == (len(seen), len(seen))


def test_revoked_access_ends_when_it_is_revoked() -> None:
    seen = ((12.0, 12.1), (16.0, 16.1))
    assert access.verdicts(grants(*seen), 2.0)[1].holds
    revoked = grants(*seen, revoked=13.0)
    assert access.verdicts(revoked, 2.0)[1].violations == ("alice: 3.0 s after its window",)
    assert access.summary(revoked) == {"granted": 1, "used": 1, "revoked": 1, "late": 3.0}


def test_the_time_without_an_api_server_does_not_count() -> None:
    seen = grants((12.0, 12.1), (27.0, 27.1))
    assert access.lateness(seen.all[0], []) == 7.0
    away = access.outages([12.1, 12.6, 15.0, 21.0, 21.5, 22.0, 25.0, 27.1])
    assert away == [(12.6, 15.0), (15.0, 21.0), (22.0, 25.0), (25.0, 27.1)]
    assert access.lateness(seen.all[0], away) == pytest.approx(7.0 - 1.0 - 3.0 - 2.0)

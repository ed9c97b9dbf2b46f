"""Which settings a rollback brings back, and in which direction it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fairlead.common.errors import UsageError
from fairlead.deployment import manifests
from fairlead.deployment.history_log import Entry
from fairlead.deployment.names import REVISION_ANNOTATION
from fairlead.operations import history, push, rollback
from fairlead.settings.models import Pool, Settings

DEFAULTS = Settings().document()


def entry(number: int, restored: int | None = None, **settings: Any) -> Entry:
    manifest = manifests.policies_of({"main.rego": "package x"}, {REVISION_ANNOTATION: "a"})
    chosen = {**DEFAULTS, **settings}
    return Entry(number, "push", "", None, None, "a", chosen, restored, manifest)


def test_every_setting_comes_back_stays_or_matters() -> None:
    """A new setting matters until somebody decides otherwise."""
    known = {*push.POLICY_ONLY, *rollback._BESIDE_POLICIES}
    assert known < DEFAULTS.keys()
    # The places of policies are not kept in a cluster.
    assert DEFAULTS.keys() - known - {"policies"} == {
        "namespaceLabel",
        "defaultPool",
        "access",
        "placement",
        "pools",
        "replicate",
    }


def test_settings_that_matter_are_refused_with_all_that_differ() -> None:
    with pytest.raises(UsageError) as refused:
        rollback._missing(DEFAULTS, entry(1, pools={"a": {}}, replicas=3, contact="#b"))
    assert 'pools is {} now and was {"a": {}}; replicas is 2 now and was 3' in str(refused.value)
    assert "contact" not in str(refused.value)


def test_long_settings_are_named_and_shown_as_lines_of_the_file_alone() -> None:
    pools = Settings(pools={name: Pool() for name in ("gpu", "cheap", "large")})
    with pytest.raises(UsageError) as refused:
        rollback._missing(DEFAULTS, entry(1, pools=pools.deployed_document()["pools"]))
    first, _, lines = str(refused.value).partition("\n\n")
    assert "pools is not what it was. Nothing was changed." in first
    assert len(first) < 300
    assert "  pools:\n    gpu:\n" in lines


def test_placement_over_clusters_matters_also_where_it_is_left_out() -> None:
    off, on = (Settings(placement=value).deployed_document() for value in (False, True))
    assert "placement" not in off
    for now, then in ((off, on), (on, off)):
        with pytest.raises(UsageError, match=r"placement is (true|false) now and was"):
            rollback._missing(now, replace(entry(1), settings=then))
    assert rollback._missing(off, replace(entry(1), settings=off)) == []


def test_settings_that_are_not_kept_are_not_compared() -> None:
    assert rollback._missing(DEFAULTS, replace(entry(1), settings=None)) == []
    assert rollback._missing(None, entry(1, replicas=3)) == []


def test_the_settings_after_a_rollback_are_those_that_are_in_force() -> None:
    then = {**DEFAULTS, "contact": "#then", "replicas": 3}
    manifest = entry(1).manifest
    assert manifest is not None

    def after(now: Any, then: Any) -> dict[str, Any] | None:
        return history.settings_of(rollback._manifest(manifest, now, then))

    assert after(DEFAULTS, then) == {**DEFAULTS, "contact": "#then"}
    assert after(DEFAULTS, None) == DEFAULTS
    assert after(None, then) == then
    assert after(None, None) is None


@pytest.mark.parametrize(
    ("now", "then", "direction"),
    [
        (entry(3), entry(2), "back"),
        (entry(2), entry(3), "forward"),
        (entry(3, restored=1), entry(2), "forward"),
        (entry(4), entry(3, restored=1), "back"),
        (entry(3, restored=1), entry(1), None),
        (None, entry(2), None),
    ],
)
def test_the_direction_is_that_of_the_first_time(
    now: Entry | None, then: Entry, direction: str | None
) -> None:
    assert rollback.direction(now, then) == direction

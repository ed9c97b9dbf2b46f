"""If developers' packages are missing, the error names them and how to install them."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from packaging.requirements import Requirement

from fairlead.common import paths
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from lab import checkout, developers, e2e, targets


def test_what_is_installed_is_not_asked_for() -> None:
    developers.require("this test", "pytest", "hypothesis")


def test_each_missing_package_is_named_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"this test needs nowhere_1, nowhere_2, .*`make setup`"):
        developers.require("this test", "nowhere_1", "pytest", "nowhere_2")


def test_commands_say_so_before_they_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(UsageError, match="the step pytest needs pytest,"):
        list(checkout.run(["opa fmt", "pytest"], [], progress=Progress()))
    assert [result.passed for result in checkout.run(["opa fmt"], [], progress=Progress())] == [
        True
    ]
    with pytest.raises(UsageError, match="the end-to-end run needs pytest,"):
        e2e.run(targets.of_environment(), progress=Progress())


def test_the_extra_has_what_requirements_dev_lists() -> None:
    listed = {
        Requirement(line).name
        for line in (paths.root() / "requirements-dev.in").read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }
    required = map(Requirement, metadata.requires("fairlead") or [])
    extra = {
        requirement.name
        for requirement in required
        if requirement.marker and "dev" in str(requirement.marker)
    }
    assert listed == extra

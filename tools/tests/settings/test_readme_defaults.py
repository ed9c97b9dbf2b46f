"""What README says of settings is so."""

from __future__ import annotations

import re

from fairlead.common import paths
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def test_readme_names_the_intents_that_are_in_force_by_default() -> None:
    row = re.search(
        r"^\| `intents` \| (\S+) \| (.*)$", (paths.root() / "README.md").read_text(), re.M
    )
    assert row
    policies = PolicySet.load(Settings())
    assert [instance.name for instance in policies.active] == [row[1]]
    assert "docs/policies.md#the-policies-of-this-project" in row[2], "where all of them are"

"""That a bundle counts is checked at each decision, so this must not cost much. Allocations are the
same on every machine; the limit leaves 5 % for another version of OPA."""

from __future__ import annotations

import pytest

from fairlead.common.progress import Progress
from fairlead.distribution import contents
from fairlead.policy import policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from lab import benchmarks
from lab.decision_cost import REQUESTS

pytestmark = pytest.mark.lab

LIMIT = 206 * 1.05
"""What the check of two bundles takes; a new pod takes 1,770 without it."""


def test_the_check_of_the_bundle_costs_little() -> None:
    policies = PolicySet.load(Settings(), further=[policy_files.SIGNED])
    archive = contents.policies(policies, Progress())
    modules = {path: content.decode() for path, content in archive.files.items()}
    mapped = {"team-0": {"metadata": {"labels": {"agentpool": "pool"}}}}
    manifests = {
        name: {"manifest": {"metadata": {"signed": 1000, "expires": 4_000_000_000}}}
        for name in ("policies", "data")
    }
    data = {"kubernetes": {"namespaces": mapped}, "system": {"bundles": manifests}}
    plain, checked = (
        benchmarks.measured(
            f"data.{package}.main", modules=modules, data=data, input=REQUESTS["a new pod"]
        ).allocations
        for package in ("fairlead_admission", "signed_bundle")
    )
    assert plain < checked <= plain + LIMIT

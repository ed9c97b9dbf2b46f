"""opa, python and cel decide alike about requests that hypothesis makes; and if they do not, the
fuzz shows it by a case."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fairlead.clusters.embedded.bare_cluster import BareCluster
from fairlead.common.progress import Progress
from fairlead.engines.base import Engine
from fairlead.policy import cases, policy_files
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings
from fairlead.verification.opa import OpaEngine
from fairlead.verification.verify import verify
from lab.engines.cel import CelEngine
from lab.engines.live import clusters
from lab.fuzz import agreement

pytestmark = [pytest.mark.lab, pytest.mark.embedded("it has no policies but these")]
EXAMPLES = 200


@pytest.fixture(scope="module")
def cluster() -> Iterator[BareCluster]:
    """A cluster with nodes, in which deleted namespaces go: cases need both."""
    with clusters.bare(Progress()) as started:
        yield started


def test_the_engines_decide_alike(cluster: BareCluster) -> None:
    names = ("opa", "python", "cel")
    result = agreement.run(names, seed=1, progress=Progress(), examples=EXAMPLES, cluster=cluster)
    assert result.why == ""
    assert result.outcomes.keys() >= {"allowed", "changed", "refused"}
    refused = result.outcomes["refused by the API server itself"]
    assert result.tried - refused > EXAMPLES / 4


def test_a_wrong_comparison_is_found_and_shown_as_a_case(
    cluster: BareCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), folder)
    definition = folder / "node_pool" / "engines" / "cel.yaml"
    right = "variables.pool != '' && (variables.createsPods"
    assert right in definition.read_text()
    definition.write_text(definition.read_text().replace(right, right.replace("!=", "==")))
    policies = PolicySet.load(Settings(), folder)
    result = agreement.run(
        ("opa", "cel"),
        seed=1,
        progress=Progress(),
        examples=EXAMPLES,
        policies=policies,
        cluster=cluster,
        shrink=False,
    )
    assert result.why.startswith("opa and cel differ: ")
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump([result.failing]))
    shown = cases.load(path)
    engines: list[Engine] = [
        OpaEngine(policies),
        CelEngine(policies, cluster),
        CelEngine(None, cluster),
    ]
    assert [each.passed for each in verify(shown, engines, Progress())] == [True, False, True]

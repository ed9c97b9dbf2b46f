"""Admission policies judge drawn final states of pods as OPA does; and if they do not, the fuzz
shows it by a case."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from fairlead.common.progress import Progress
from fairlead.policy import bundles, cases
from lab.fuzz import final_states

QUIET = Progress()
EXAMPLES = 75


def test_the_policies_judge_drawn_final_states_as_opa_does() -> None:
    result = final_states.run(seed=1, progress=QUIET, examples=EXAMPLES)
    assert result.why == ""
    assert result.tried > EXAMPLES
    assert result.outcomes.keys() == {
        "final state accepted",
        "final state refused",
        "final state refused as undone",
    }


@pytest.mark.parametrize(
    ("intent", "condition"),
    [
        ("node_pool", "variables.selectorAfter == variables.selector && "),
        (
            "sidecar_injection",
            "\n      && variables.initContainers.exists"
            "(container, container.name == params.container.name)",
        ),
    ],
)
def test_what_is_no_longer_seen_to_be_undone_is_found_and_shown_as_a_case(
    tmp_path: Path, intent: str, condition: str
) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(bundles.folder(), folder)
    definition = folder / intent / "engines" / "cel.yaml"
    before, done, after = definition.read_text().partition("    done: >-\n")
    assert after.count(condition) == 1
    definition.write_text(before + done + after.replace(condition, ""))
    result = final_states.run(seed=1, progress=QUIET, examples=EXAMPLES, folder=folder)
    assert "and OPA: another webhook has undone" in result.why
    path = tmp_path / "case.yaml"
    path.write_text(yaml.safe_dump([result.failing]))
    shown = cases.load(path)
    judged = [final_states.Judge(QUIET, each).judged(shown) for each in (folder, None)]
    assert [bool(each.wrong) for (each,) in judged] == [True, False]

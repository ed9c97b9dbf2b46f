"""The policies in Rego and in Python give equal answers, and the comparison notices if they do
not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.policy import policy_files
from lab.fuzz import engines

WITHOUT_A_CLUSTER = ("opa", "python")


def test_rego_and_python_give_equal_answers() -> None:
    result = engines.run(seed=1, progress=Progress(), examples=200, engines=WITHOUT_A_CLUSTER)
    assert result["why"] is None
    assert result["tried"] >= 200
    assert {outcome["outcome"] for outcome in result["outcomes"]} >= {
        "allowed",
        "changed",
        "refused",
        "warned",
    }


def test_a_difference_is_found_and_shown_with_its_request(tmp_path: Path) -> None:
    folder = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), folder)
    module = folder / "node_pool" / "mutation.rego"
    right = '"add", "path": pointer("nodeSelector")'
    assert right in module.read_text()
    module.write_text(module.read_text().replace(right, right.replace("add", "replace")))
    result = engines.run(
        seed=1,
        progress=Progress(),
        policies=folder,
        examples=200,
        engines=WITHOUT_A_CLUSTER,
        shrink=False,
    )
    assert result["why"].startswith("Rego answers {")
    assert len(result["example"]["asked"]) >= 1


def test_one_engine_alone_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="name two engines"):
        engines.run(seed=1, progress=Progress(), engines=["cel"])

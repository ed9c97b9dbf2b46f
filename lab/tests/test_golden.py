"""What each engine renders of the settings in testdata/golden is as committed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.policy import generated
from lab.commands.generate import command
from lab.engines import golden


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the golden pairs, which a test may change."""
    folder = tmp_path / "golden"
    shutil.copytree(golden.folder(), folder)
    monkeypatch.setattr(golden, "folder", lambda: folder)
    return folder


def test_the_pairs_are_as_committed() -> None:
    texts = golden.texts()
    assert len(texts) >= 2
    assert list(generated.outdated(texts)) == [], "run `make generate`, and look at the difference"
    assert golden.superfluous(texts) == []


def test_settings_are_rendered_the_same_each_time() -> None:
    assert golden.texts() == golden.texts()


def test_rendered_objects_follow_the_settings(copy: Path) -> None:
    settings = copy / "pools" / "fairlead.yaml"
    settings.write_text(settings.read_text().replace("a100", "h100"))
    outdated = generated.outdated(golden.texts())
    assert copy / "pools" / "cel.yaml" in outdated
    assert not [path for path in outdated if path.parent.name == "limits"]
    for path, text in outdated.items():
        assert "h100" in text
        assert list(yaml.safe_load_all(text)), path


def test_the_command_writes_them_and_removes_what_is_left_over(copy: Path) -> None:
    whole = (copy / "pools" / "cel.yaml").read_text()
    (copy / "pools" / "cel.yaml").write_text("changed")
    (copy / "pools" / "former.yaml").write_text("of an engine that is gone")
    result = generate("-o", "json")
    assert result.exit_code == 0
    assert (copy / "pools" / "cel.yaml").read_text() == whole
    assert not (copy / "pools" / "former.yaml").exists()
    assert "former.yaml" in result.stdout


def generate(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)

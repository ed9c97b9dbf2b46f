"""`fairlead uninstall` prints a line for each object, as `fairlead deploy` does."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fairlead.cli import options
from fairlead.cli.operations.uninstall import command
from fairlead.clusters import registry
from fairlead.operations import uninstall as library
from fairlead.operations.uninstall import Uninstalled

REMOVAL = Uninstalled(
    [
        {"kind": "ClusterRole", "name": "fairlead-opa", "namespace": None, "removed": True},
        {"kind": "Namespace", "name": "fairlead", "namespace": None, "removed": False},
    ],
    ["ConfigMap theirs"],
)


def test_each_object_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find", lambda target: None)
    monkeypatch.setattr(options, "ask", lambda *arguments, **given: None)
    monkeypatch.setattr(library, "uninstall", lambda cluster, progress: REMOVAL)
    result = CliRunner().invoke(command, ["--yes"], standalone_mode=False)
    assert result.stdout == "clusterrole/fairlead-opa removed\nnamespace/fairlead stays\n"
    assert "the namespace stays, because it also holds: ConfigMap theirs" in result.stderr

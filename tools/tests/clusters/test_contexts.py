"""Contexts of several kubeconfigs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead.clusters import contexts
from fairlead.common.errors import UsageError
from fairlead.kube import kubeconfig_copies

REAL = """\
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: 'https://a.example'}}]
users: [{name: a, user: {token: t}}]
"""


@pytest.mark.parametrize("nothing", ["", "\n", "# nothing yet\n", "---\n"])
def test_an_empty_file_has_no_contexts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing: str
) -> None:
    empty, real = tmp_path / "empty.yaml", tmp_path / "real.yaml"
    empty.write_text(nothing)
    real.write_text(REAL)
    for files in ((empty, real), (real, empty)):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
        name, document = contexts.of(None, None)
        assert (name, document["users"][0]["user"]) == ("a", {"token": "t"})
    monkeypatch.setenv("KUBECONFIG", str(empty))
    with pytest.raises(UsageError, match="no context is the current one"):
        contexts.of(None, None)


def test_a_kubeconfig_that_is_no_copy_has_itself_as_its_origin(tmp_path: Path) -> None:
    for text in (REAL, f"{REAL}extensions: [{{name: other, extension: {{}}}}]", "[]", "{"):
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        assert kubeconfig_copies.origin(file, "users") == file
    assert kubeconfig_copies.origin(tmp_path / "nowhere", "users") == tmp_path / "nowhere"

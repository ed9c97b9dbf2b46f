"""Kubeconfigs whose credentials come from an exec plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.common.errors import InputError
from fairlead.kube import configurations


def kubeconfig(folder: Path, **user: Any) -> Path:
    named = {"name": "a"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [{**named, "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{**named, "cluster": {"server": "https://a.example"}}],
        "users": [{**named, "user": user}],
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def plugin(folder: Path, script: str) -> dict[str, Any]:
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file)}


def credentials(**status: str) -> str:
    api_version = "client.authentication.k8s.io/v1"
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": status})


def test_a_plugin_gives_a_token(tmp_path: Path) -> None:
    exec_config = plugin(tmp_path, f"echo '{credentials(token='secret')}'")
    loaded = configurations.load(kubeconfig(tmp_path, exec=exec_config))
    assert loaded.api_key["BearerToken"] == "Bearer secret"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo sign in first >&2; exit 1", "sign in first"),
        ("echo '{}'", "malformed response"),
        ("echo no", "failed to decode"),
        (f"echo '{credentials()}'", "missing token or clientCertificateData"),
    ],
)
def test_a_plugin_that_gives_none_is_named_before_any_request(
    tmp_path: Path, script: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = kubeconfig(tmp_path, exec=plugin(tmp_path, script))
    with pytest.raises(InputError, match=words) as caught:
        configurations.load(file)
    named = f"{file}: the exec plugin '{tmp_path / 'plugin'}'"
    assert str(caught.value).startswith(f"{named} gives no credentials (")
    assert str(caught.value).endswith(
        "): see whether it is installed and signed in, or name another context"
    )


def test_a_plugin_that_is_not_installed_is_named_and_nothing_else_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    api_version = "client.authentication.k8s.io/v1"
    file = kubeconfig(tmp_path, exec={"apiVersion": api_version, "command": "no-such-plugin"})
    with pytest.raises(InputError, match=r"no-such-plugin.* no credentials .*No such file"):
        configurations.load(file)
    assert capfd.readouterr() == ("", "")


def test_a_token_needs_no_plugin(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, token="own", exec={"command": "no-such-plugin"})
    assert configurations.load(file).api_key["BearerToken"] == "Bearer own"

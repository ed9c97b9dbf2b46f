"""The tokens of scopes in manifests, in OPA's authz policy, and in the file for GitOps."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.operations.rotate import command
from fairlead.common.errors import UsageError
from fairlead.deployment import manifests, secrets_file
from fairlead.deployment.credentials import Credentials
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.access import Access
from fairlead.settings.models import Settings

WANTED = Settings(placement=True)


def rendered(settings: Settings, credentials: Credentials) -> list[dict[str, Any]]:
    """The Secrets of a deployment."""
    files = manifests.render_files(
        PolicySet.load(settings), credentials, templates=["30-secrets.yaml.j2"]
    )
    return files["30-secrets.yaml"]


def secrets(settings: Settings, credentials: Credentials) -> dict[str, dict[str, str]]:
    """The data of the Secrets, by their names."""
    return {
        secret["metadata"]["name"]: {
            key: b64decode(value).decode() for key, value in secret["data"].items()
        }
        for secret in rendered(settings, credentials)
    }


def test_only_a_deployment_that_wants_a_scope_has_its_token() -> None:
    assert Settings().scopes() == []
    assert WANTED.scopes() == ["placement"]
    assert Settings(access=Access()).scopes() == ["access"]
    plain = secrets(Settings(), Credentials.fresh().opening([]))
    assert plain.keys() == {"opa-token", "opa-tls"}
    assert "scoped_requests :=" not in plain["opa-token"]["authz.rego"]


def test_the_authz_policy_has_the_digests_of_the_valid_tokens_and_no_token() -> None:
    first = Credentials.fresh().opening(["placement"])
    credentials = first.renewing(["placement"])
    new, old = credentials.scoped["placement"]
    assert first.scoped["placement"] == (old,)
    data = secrets(WANTED, credentials)
    assert data["opa-token-placement"] == {"token": new, "previous": old}
    authz = data["opa-token"]["authz.rego"]
    line = authz.partition("scoped_requests := ")[2]
    digests = {hashlib.sha256(token.encode()).hexdigest() for token in (new, old)}
    request = ["POST", ["v1", "data", "k8s", "placement"]]
    assert yaml.safe_load(line) == {digest: [request] for digest in digests}
    assert not [token for token in (new, old, credentials.token) if token in authz]
    third = credentials.renewing(["placement"]).scoped["placement"]
    assert third[1:] == (new,), "never more than two are valid"


def test_tokens_of_scopes_are_read_back_and_kept() -> None:
    credentials = Credentials.fresh().opening(["placement"]).renewing(["placement"])
    token, scoped, tls = (secret["data"] for secret in rendered(WANTED, credentials))
    kept = Credentials.kept(token, tls, scoped={"placement": scoped})
    assert kept == credentials
    assert kept.opening(["placement"]) == credentials
    assert kept.having(kept.tls) == credentials
    assert kept.opening([]).scoped == {}
    for damaged in (None, {}, {"token": ""}, {"token": "%"}, {"previous": scoped["token"]}):
        again = Credentials.kept(token, tls, scoped={"placement": damaged})
        assert again is not None
        assert again.scoped == {}
    assert not [text for text in credentials.scoped["placement"] if text in repr(credentials)]


def saved(path: Path, settings: Settings, *, renew: bool = False) -> dict[str, dict[str, str]]:
    """The Secrets in the file after a rendering, by their names."""
    file = secrets_file.load(path, renew=renew)
    credentials = file.credentials.opening(settings.scopes())
    file.save(rendered(settings, credentials))
    return {
        secret["metadata"]["name"]: secret["data"]
        for secret in yaml.safe_load_all(path.read_text())
    }


def test_the_file_for_gitops_gets_keeps_renews_and_loses_the_token(tmp_path: Path) -> None:
    path = tmp_path / "secrets.yaml"
    before = saved(path, Settings())
    assert before.keys() == {"opa-token", "opa-tls"}
    first = saved(path, WANTED)
    assert first.keys() == {"opa-token", "opa-tls", "opa-token-placement"}
    assert first["opa-token"]["token"] == before["opa-token"]["token"]
    assert saved(path, WANTED) == first
    renewed = saved(path, WANTED, renew=True)["opa-token-placement"]
    assert renewed["previous"] == first["opa-token-placement"]["token"]
    assert renewed["token"] != renewed["previous"]
    assert secrets_file.load(path).credentials.scoped.keys() == {"placement"}
    assert saved(path, Settings()).keys() == {"opa-token", "opa-tls"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cert", "--scope", "placement"], "--scope is about tokens"),
        (["token", "--retire"], "name it with --scope"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CliRunner().invoke(command, arguments, standalone_mode=False, catch_exceptions=False)

"""The manifests, as far as an API server would not notice an error."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from rendering import render

from fairlead.common.progress import Progress
from fairlead.deployment import manifests
from fairlead.deployment import render as render_output
from fairlead.deployment.credentials import Credentials
from fairlead.policy import policy_files, staging
from fairlead.policy.policy_set import PolicySet
from fairlead.settings.models import Settings


def test_what_is_beyond_the_basic_plane_is_rendered_to_the_letter(tmp_path: Path) -> None:
    emoji = "\U0001f692 \\ud83d\\ude92 \x85"
    policies = tmp_path / "policies"
    shutil.copytree(policy_files.builtin(), policies)
    with (policies / "main.rego").open("a", encoding="utf-8") as module:
        module.write(f"\n# {emoji[:-1]}\n")
    settings = Settings(admins=[emoji], contact="\U0001f692")
    policy_set = PolicySet.load(settings, policies)
    rendered = manifests.render_objects(policy_set, Credentials.fresh())
    assert [
        subject["name"]
        for m in rendered
        if m["kind"] == "ClusterRoleBinding"
        for subject in m.get("subjects", ())
    ].count(emoji) == 1
    (config_map,) = [m for m in rendered if m["kind"] == "ConfigMap"]
    assert config_map == manifests.config_map(policy_set)
    assert list(yaml.safe_load_all(manifests.to_yaml(rendered))) == rendered


def test_only_the_secret_holds_the_token() -> None:
    settings, credentials = Settings(), Credentials.fresh()
    rendered = manifests.render_objects(PolicySet.load(settings), credentials)
    for manifest in rendered:
        text = yaml.safe_dump(manifest)
        encoded = base64.b64encode(credentials.token.encode()).decode()
        assert credentials.token not in text
        assert (encoded in text) == (manifest["metadata"]["name"] == "opa-token")


def test_the_output_of_render_is_what_kubectl_reads() -> None:
    documents = list(
        yaml.safe_load_all(
            manifests.to_yaml(
                render_output.render(PolicySet.load(Settings()), progress=Progress()).objects
            )
        )
    )
    kinds = [document["kind"] for document in documents]
    assert (kinds[0], kinds[-1], kinds.count("Deployment")) == (
        "Namespace",
        "ValidatingWebhookConfiguration",
        2,
    )
    config_map = next(d for d in documents if d["kind"] == "ConfigMap")
    staged = staging.stage(PolicySet.load(Settings()).bundle, Progress())
    assert config_map["data"] == staged.modules


@pytest.mark.parametrize(
    ("named", "chosen"), [(None, "sync"), ("kube-mgmt", "kube-mgmt"), ("sync", "sync")]
)
def test_the_default_sidecar_of_rendered_files_is_sync(named: str | None, chosen: str) -> None:
    documents = yaml.safe_load_all(
        manifests.to_yaml(
            render_output.render(
                PolicySet.load(Settings()), sidecar=named, progress=Progress()
            ).objects
        )
    )
    deployments = [d for d in documents if d["kind"] == "Deployment"]
    containers = [
        c["name"] for d in deployments for c in d["spec"]["template"]["spec"]["containers"]
    ]
    assert containers == ["opa", chosen, "controller"]


@pytest.mark.parametrize("damage", ["token", "tls.crt", "ca.crt"])
def test_damaged_credentials_are_made_again(damage: str) -> None:
    good = Credentials.fresh()
    token = {"token": base64.b64encode(good.token.encode()).decode()}
    tls = {
        "tls.crt": base64.b64encode(good.certificate).decode(),
        "tls.key": base64.b64encode(good.key).decode(),
        "ca.crt": base64.b64encode(good.ca).decode(),
    }
    assert Credentials.kept(token, tls) == good
    assert Credentials.kept(None, tls) is None
    assert (
        Credentials.kept(
            {k: v for k, v in token.items() if k != damage},
            {k: v for k, v in tls.items() if k != damage},
        )
        is None
    )


def test_credentials_show_no_secret() -> None:
    credentials = Credentials.fresh()
    assert credentials.token not in repr(credentials)
    assert "PRIVATE" not in repr(credentials)
    assert len(base64.urlsafe_b64decode(credentials.token + "=")) * 8 == 256


@pytest.mark.parametrize("chosen", [{}, {"defaultPool": "x", "pools": {"x": {}}}])
def test_a_push_applies_the_very_config_map_that_a_deployment_does(chosen: dict[str, Any]) -> None:
    settings = Settings.model_validate(chosen)
    assert render(chosen)["ConfigMap"] == manifests.config_map(PolicySet.load(settings))

"""The kustomize component, built by the real kubectl with what `fairlead render` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli.operations import bundle
from fairlead.common import atomic_files
from fairlead.common.errors import UsageError
from fairlead.deployment import credentials, manifests
from fairlead.deployment.credentials import Credentials
from fairlead.deployment.names import POLICIES
from fairlead.deployment.sidecars import SIDECARS
from fairlead.distribution import signatures
from fairlead.policy.bundles import Bundle
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

KUSTOMIZATION = "resources: [base.yaml]\ncomponents: [bundles]\n"


def config(folder: Path, *more: str | Path) -> Result:
    arguments = [
        "config",
        "--url",
        "https://policies.example.com:8443",
        "--public-key",
        folder / "key.pub",
    ]
    arguments += ["--kustomize", folder / "bundles", *more]
    return CliRunner().invoke(bundle.command, [str(argument) for argument in arguments])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a public key, a CA, and an overlay with the component `bundles`."""
    (tmp_path / "key.pub").write_bytes(signatures.new_key().public.pem)
    (tmp_path / "ca.crt").write_bytes(Credentials.fresh(credentials.LOOPBACK).ca)
    (tmp_path / "kustomization.yaml").write_text(KUSTOMIZATION)
    return tmp_path


def built(folder: Path) -> dict[tuple[str, str], Any]:
    program = toolchain.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [program, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    objects = yaml.safe_load_all(done.stdout)
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


@pytest.mark.parametrize("sidecar", ["sync", "kube-mgmt"])
def test_opa_gets_its_configuration_and_no_policies_of_the_cluster(
    folder: Path, sidecar: str
) -> None:
    objects = manifests.render_objects(
        PolicySet(Settings(), Bundle({"main.rego": "package system\n"})),
        Credentials.fresh(credentials.LOOPBACK),
        sidecar=SIDECARS[sidecar],
    )
    (folder / "base.yaml").write_text(manifests.to_yaml(objects))
    assert config(folder, "--ca-file", folder / "ca.crt").exit_code == 0
    whole = built(folder)
    before = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    config_map, network = sorted(whole.keys() - before.keys())
    assert whole[network]["spec"]["egress"] == [
        {
            "ports": [
                {"protocol": "TCP", "port": 8443},
                {"protocol": "UDP", "port": 53},
                {"protocol": "TCP", "port": 53},
            ]
        }
    ]
    selected = before["Deployment", "opa"]["spec"]["selector"]
    assert whole[network]["spec"]["podSelector"] == selected
    assert before.keys() - whole.keys() == {("ConfigMap", POLICIES)}
    opa = yaml.safe_load(whole[config_map]["data"]["opa.yaml"])
    assert opa["services"]["bundles"]["tls"]["ca_cert"] == "/run/fairlead/bundles/bundles-ca.crt"
    assert whole[config_map]["data"]["bundles-ca.crt"] == (folder / "ca.crt").read_text()
    pod, former = (
        each["Deployment", "opa"]["spec"]["template"]["spec"] for each in (whole, before)
    )
    containers = {each["name"]: each for each in pod["containers"]}
    arguments = next(each["args"] for each in former["containers"] if each["name"] == "opa")
    assert containers["opa"]["args"] == [
        arguments[0],
        "--config-file=/run/fairlead/bundles/opa.yaml",
        *arguments[1:],
    ]
    annotations = whole["Deployment", "opa"]["metadata"]["annotations"]
    assert annotations["fairlead.dev/bundles"] == "https://policies.example.com:8443"
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["bundles"]["configMap"]["name"] == config_map[1]
    mounts = {each["name"]: each["mountPath"] for each in containers["opa"]["volumeMounts"]}
    assert mounts["kept-bundles"] == opa["persistence_directory"]
    assert {each["name"] for each in former["volumes"]} < volumes.keys()


def test_a_token_comes_from_a_secret(folder: Path) -> None:
    objects = manifests.render_objects(
        PolicySet(Settings(), Bundle({"main.rego": "package system\n"})),
        Credentials.fresh(credentials.LOOPBACK),
        sidecar=SIDECARS["sync"],
    )
    (folder / "base.yaml").write_text(manifests.to_yaml(objects))
    assert config(folder, "--token-secret", "registry-user").exit_code == 0
    whole = built(folder)
    pod = whole["Deployment", "opa"]["spec"]["template"]["spec"]
    (container,) = [each for each in pod["containers"] if each["name"] == "opa"]
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["bundles-token"]["secret"]["secretName"] == "registry-user"
    (name,) = [name for kind, name in whole if name.startswith("opa-bundles-")]
    opa = yaml.safe_load(whole["ConfigMap", name]["data"]["opa.yaml"])
    path = opa["services"]["bundles"]["credentials"]["bearer"]["token_path"]
    assert path == f"{mounts['bundles-token']['mountPath']}/token"
    arguments = ["--url", "https://a", "--public-key", folder / "key.pub", "--token-secret", "a"]
    alone = CliRunner().invoke(bundle.command, ["config", *map(str, arguments)]).exception
    assert isinstance(alone, UsageError)
    assert "--token-secret is about --kustomize" in str(alone)


def test_nothing_of_others_is_overwritten(folder: Path) -> None:
    assert config(folder).exit_code == 0
    assert config(folder, "--label", "cluster=paris").exit_code == 0
    assert "cluster: paris" in (folder / "bundles" / "opa.yaml").read_text()
    refused = config(folder, "--token-file", folder / "token").exception
    assert isinstance(refused, UsageError)
    assert "goes into Git" in str(refused)
    atomic_files.write_all({folder / "bundles" / "kustomization.yaml": "resources: []\n"})
    refused = config(folder).exception
    assert isinstance(refused, UsageError)
    assert "no component made it" in str(refused)

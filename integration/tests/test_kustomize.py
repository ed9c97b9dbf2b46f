"""The kustomize base and its overlay, built by the real kubectl and applied to a real API
server."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.common import paths
from fairlead.common.progress import Progress
from fairlead.deployment import kustomize, manifests, render, secrets_file, sidecars
from fairlead.deployment.names import RENEWED_BY
from fairlead.kube import clients
from fairlead.policy import staging
from fairlead.policy.policy_set import PolicySet
from fairlead.programs import toolchain
from fairlead.settings.models import Settings

SILENT = Progress()
EMOJI = {"contact": "\U0001f692", "admins": ["\U0001f692"]}
COMMITTED = paths.root() / "integration" / "kustomize"


def built(folder: Path) -> list[dict[str, Any]]:
    """The output of `kubectl kustomize` for a folder."""
    program = toolchain.ensure(["kubectl"])["kubectl"]
    done = subprocess.run(
        [program, "kustomize", folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def named(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects by kind and name."""
    by_name = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in objects}
    assert len(by_name) == len(objects)
    return by_name


def test_the_committed_base_is_what_render_writes_for_the_defaults(tmp_path: Path) -> None:
    kustomize.write(render.render(PolicySet.load(Settings()), progress=SILENT), tmp_path)
    made, committed = (
        {path.name: path.read_text() for path in at.iterdir()} for at in (tmp_path, COMMITTED)
    )
    differ = sorted(
        name for name in made.keys() | committed.keys() if made.get(name) != committed.get(name)
    )
    assert not differ, (
        f"{COMMITTED} is not what the templates and policies say now: run `make generate`"
    )


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS)
@pytest.mark.parametrize(
    "chosen",
    [{}, {"pools": {"a": {}}, "defaultPool": "a"}, EMOJI],
    ids=["defaults", "pools", "emoji"],
)
def test_base_and_overlay_are_together_what_deploy_applies(
    tmp_path: Path, sidecar: str, chosen: dict[str, Any]
) -> None:
    settings, secrets = Settings.model_validate(chosen), tmp_path / "overlay" / "secrets.yaml"
    policies = PolicySet.load(settings)
    rendered = render.render(policies, secrets=secrets, sidecar=sidecar, progress=SILENT)
    kustomize.write(rendered, tmp_path / "base")
    chosen_sidecar = sidecars.SIDECARS[sidecar]
    staged = staging.staged(policies, chosen_sidecar.engine, SILENT)
    credentials = secrets_file.load(secrets).credentials
    whole = named(manifests.render_objects(staged, credentials, sidecar=chosen_sidecar))
    # The file keeps the certificate, so nothing in the cluster renews it.
    whole["Secret", "opa-tls"]["metadata"]["annotations"][RENEWED_BY] = "fairlead render"
    assert named(built(secrets.parent)) == whole
    assert built(secrets.parent)[0]["kind"] == "Namespace"
    assert built(secrets.parent)[-1]["kind"] == "ValidatingWebhookConfiguration"
    base = named(built(tmp_path / "base"))
    assert whole.keys() - base.keys() == {("Secret", "opa-token"), ("Secret", "opa-tls")}
    assert "caBundle:" not in yaml.safe_dump(base)


@pytest.mark.parametrize("sidecar", sidecars.SIDECARS)
def test_the_api_server_takes_all_that_kustomize_builds_strictly(
    tmp_path: Path, objects: clients.Objects, sidecar: str
) -> None:
    secrets = tmp_path / "secrets.yaml"
    policies = PolicySet.load(Settings())
    rendered = render.render(policies, secrets=secrets, sidecar=sidecar, progress=SILENT)
    kustomize.write(rendered, tmp_path / "base")
    taken = [objects.apply(manifest, dry_run=True)["kind"] for manifest in built(tmp_path)]
    assert len(taken) == 48


def test_the_api_server_takes_the_committed_base(objects: clients.Objects) -> None:
    taken = [objects.apply(manifest, dry_run=True)["kind"] for manifest in built(COMMITTED)]
    assert len(taken) == 46
    assert "Secret" not in taken

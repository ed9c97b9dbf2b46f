"""Real OPAs follow a real OCI registry, with TLS and a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from oci_registries import DEADLINE, Registry

from fairlead.cli.bundle import command
from fairlead.clusters.embedded import ports
from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.common.progress import Progress
from fairlead.distribution import client, contents
from fairlead.distribution.archives import SIGNATURES, Archive
from fairlead.distribution.registry import Repository
from fairlead.settings.models import Settings
from lab.followers import Follower

NAMES = ("policies",)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = Registry(tmp_path_factory.mktemp("registry") / "server")
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()


def policies(contact: str) -> Archive:
    """Policies that name this contact."""
    return contents.policies(Settings(contact=contact), None, Progress())


def follower(registry: Registry, folder: Path, **following: Any) -> Follower:
    opa = Follower(folder, registry, names=NAMES, **{"token": registry.token, **following})
    opa.launch()
    return opa


def contact(opa: Follower) -> Any:
    """The contact by which the OPA decides; None if it has no policies."""
    api = opa.api()
    try:
        return api.document(["settings", "contact"])
    finally:
        api.close()


def until(opa: Follower, name: str) -> None:
    waiting.until(lambda: contact(opa) == name, deadline=DEADLINE, what=f"the OPA asks {name}")


def test_an_opa_follows_each_revision_and_takes_no_forged_one(
    registry: Registry, tmp_path: Path
) -> None:
    first = registry.signed(policies("first"))
    assert registry.push(first) == f"{registry.address}/fleet/policies:latest"
    tags = registry.get("fleet/policies/tags/list").json()["tags"]
    assert set(tags) == {"latest", first.revision}
    opa = follower(registry, tmp_path / "opa")
    try:
        until(opa, "first")
        forged = registry.signed(policies("forged"))
        changed = forged.files["settings.rego"].replace(b"forged", b"other!")
        registry.push(Archive({**forged.files, "settings.rego": changed}, forged.manifest))
        waiting.until(
            lambda: "digest" in opa.log.read_text() or "mismatch" in opa.log.read_text(),
            deadline=DEADLINE,
            what="the OPA refuses the forged bundle",
        )
        assert contact(opa) == "first"
        registry.push(registry.signed(policies("second")))
        until(opa, "second")
    finally:
        opa.stop()


def test_an_opa_starts_without_the_registry(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "server")
    registry.start()
    opa = None
    try:
        registry.push(registry.signed(policies("kept")))
        opa = follower(registry, tmp_path / "opa")
        until(opa, "kept")
        # OPA decides by a bundle before it has written it.
        persisted = tmp_path / "opa" / "persisted" / "bundles" / "policies" / "bundle.tar.gz"
        waiting.until(persisted.exists, deadline=DEADLINE, what="the OPA keeps the bundle")
        registry.stop()
        opa.stop()
        opa.launch()
        until(opa, "kept")
    finally:
        registry.stop()
        if opa:
            opa.stop()


def test_what_the_registry_refuses_is_said(registry: Registry, tmp_path: Path) -> None:
    signed = registry.signed(policies("refused"))
    wrong = tmp_path / "token"
    wrong.write_text("pusher:wrong")
    for token in (None, wrong):
        with pytest.raises(UsageError, match=r"answers 401: authentication required: "):
            client.push(registry.url, signed, signed.packed(), token=token, ca=registry.ca)
    wrong.write_text("secret")
    with pytest.raises(UsageError, match="holds no USER:PASSWORD"):
        client.push(registry.url, signed, signed.packed(), token=wrong, ca=registry.ca)
    with pytest.raises(
        UsageError, match="certificate of the server cannot be verified: name its CA"
    ):
        client.push(registry.url, signed, signed.packed(), token=registry.token)
    (port,) = ports.free_ports(1)
    with pytest.raises(UsageError, match="does not answer: start it"):
        client.push(f"oci://{ports.HOST}:{port}/fleet", signed, signed.packed())
    files = {path: text for path, text in signed.files.items() if path != SIGNATURES}
    unsigned = Archive(files, signed.manifest)
    with pytest.raises(UsageError, match="the bundle is not signed"):
        registry.push(unsigned)


@pytest.mark.parametrize(
    "url", ["oci://", "oci://host", "oci://host/Upper", "oci://host/a:", "oci://user@host/a"]
)
def test_what_names_no_repository_is_refused(url: str) -> None:
    result = CliRunner().invoke(command, ["status", "--url", url])
    assert isinstance(result.exception, UsageError)
    assert "names no repository: write it like oci://" in str(result.exception)


def test_a_registry_has_a_repository_for_each_bundle() -> None:
    repository = Repository.parse("oci://registry.example.com:5000/a/fleet:prod")
    assert repository.image("data") == "registry.example.com:5000/a/fleet/data:prod"
    assert repository.url(plain=True) == "http://registry.example.com:5000"


def test_a_registry_takes_no_reports() -> None:
    result = CliRunner().invoke(command, ["status", "--url", "oci://host/fleet"])
    assert "a registry takes no reports" in str(result.exception)

"""A real OCI registry that takes tokens, which another server gives: pushes, and real OPAs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from answering_servers import Web, serving
from click.testing import CliRunner
from oci_registries import DEADLINE, USER, Registry, Tokens, basic, fresh_tls

from fairlead.cli.bundle import command
from fairlead.common import waiting
from fairlead.common.errors import UsageError
from fairlead.distribution import contents
from fairlead.distribution.archives import Archive
from lab.followers import Follower


@dataclass
class World:
    """A registry, what gives tokens for it, and what was asked of that."""

    registry: Registry
    tokens: Tokens
    web: Web

    def bundle(self, placement: str) -> Archive:
        return self.registry.signed(contents.data({"placement": placement}))


@pytest.fixture(scope="module")
def one_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    tls, tokens = fresh_tls(), Tokens(folder)
    with serving(tokens.answer, tls) as web:
        registry = Registry(
            folder / "server", tls=tls, realm=f"{web.url}/token?from=here", key_set=tokens.key_set
        )
        try:
            registry.start()
            yield World(registry, tokens, web)
        finally:
            registry.stop()


@pytest.fixture
def world(one_world: World) -> World:
    one_world.web.requests.clear()
    one_world.tokens.expired = 0
    return one_world


def refused(world: World, folder: Path, password: str | None) -> str:
    """What `fairlead bundle push` says, with exit code 2."""
    file = folder / "data.tar.gz"
    file.write_bytes(world.bundle("refused").packed())
    arguments = ["push", str(file), "--url", world.registry.url, "--ca-file", world.registry.ca]
    if password:
        (folder / "user").write_text(f"{USER[0]}:{password}")
        arguments += ["--token-file", str(folder / "user")]
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert isinstance(result.exception, UsageError), (result.exception, result.output)
    assert result.exception.exit_code == 2
    return str(result.exception)


def test_a_push_asks_once_for_a_token_by_the_password(world: World) -> None:
    assert world.registry.push(world.bundle("pushed")).endswith("/fleet/data:latest")
    (request,) = world.web.requests
    assert request.authorization == basic(*USER)
    assert request.path.startswith("/token?from=here&service=bundles&scope=repository%3Afleet")


def test_a_token_that_is_refused_is_asked_for_once(world: World) -> None:
    world.tokens.expired = 9
    with pytest.raises(UsageError, match=r"answers 401: .*give the user the right to push"):
        world.registry.push(world.bundle("refused"))
    assert len(world.web.requests) == 1


def test_a_push_without_a_password_may_not_push(world: World, tmp_path: Path) -> None:
    problem = refused(world, tmp_path, None)
    assert (
        f"{world.registry.address}/v2/fleet/data/blobs/uploads/: the registry answers 401"
        in problem
    )
    assert "name a file with USER:PASSWORD by --token-file" in problem
    assert [request.authorization for request in world.web.requests] == [""]


def test_a_wrong_password_is_named_with_its_file(world: World, tmp_path: Path) -> None:
    problem = refused(world, tmp_path, "wrong")
    assert f"{world.web.url}/token: gives no token for the registry, but answers 401" in problem
    assert f"wrong password: correct the user and the password in {tmp_path}/user" in problem


@pytest.mark.parametrize("anonymous", [True, False])
def test_an_opa_follows_by_tokens(world: World, tmp_path: Path, anonymous: bool) -> None:
    registry = world.registry
    registry.push(world.bundle("first"))
    world.web.requests.clear()
    token = None if anonymous else registry.token
    opa = Follower(tmp_path / "opa", registry, names=("data",), token=token)
    opa.launch()
    try:
        for revision in ("first", "second"):
            registry.push(world.bundle(revision))
            waiting.until(
                lambda: placement(opa) == revision,  # noqa: B023
                deadline=DEADLINE,
                what=f"the OPA has the {revision} data",
            )
        asked = {request.authorization for request in world.web.requests}
        assert ("" if anonymous else basic(*USER)) in asked
    finally:
        opa.stop()


def placement(opa: Follower) -> object:
    api = opa.api()
    try:
        return api.document(["placement"])
    finally:
        api.close()

"""What commands say to a user to whom the API server allows nothing."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from click.testing import CliRunner

from fairlead.cli.operations import access, history, policies
from fairlead.clusters import registry
from fairlead.kube import identity
from fairlead.kube.errors import Refused

MESSAGE = 'configmaps is forbidden: User "eve" cannot list resource "configmaps"'
GRANT = ("grant", "a", "-n", "shop", "--clusterrole", "view", "--user", "bob", "--for", "2h")


class Forbidden:
    """An API server that allows nothing, as its client."""

    def __getattr__(self, name: str) -> Any:
        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise Refused(f"cannot {name} it", 403, json.dumps({"message": MESSAGE}))

        return refuse


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (policies.command, ()),
        (history.command, ()),
        (access.command, ("list",)),
        (access.command, GRANT),
        (access.command, ("approve", "a", "-n", "shop")),
        (access.command, ("revoke", "a", "-n", "shop")),
        (access.command, ("history",)),
    ],
)
def test_what_the_api_server_does_not_allow_is_one_sentence_and_a_failure(
    monkeypatch: pytest.MonkeyPatch, command: Any, arguments: tuple[str, ...]
) -> None:
    cluster = SimpleNamespace(objects=Forbidden)
    monkeypatch.setattr(registry, "find", lambda _: cluster)
    monkeypatch.setattr(identity, "user_and_groups", lambda _: ("eve", []))
    result = CliRunner().invoke(command, arguments)
    assert isinstance(result.exception, Refused)
    assert result.exception.exit_code == 1
    assert "the API server says 403: " in str(result.exception)
    assert "\n" not in str(result.exception)
    assert result.stdout == ""

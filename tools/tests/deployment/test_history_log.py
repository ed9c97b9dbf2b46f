"""What the log of deployments says of earlier settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fairlead.deployment import history_log
from fairlead.deployment.names import HISTORY
from fairlead.kube.errors import Refused
from fairlead.settings.models import Pool, Settings


class Log:
    """An API server with the log of these settings, the oldest first."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        entries = [
            history_log.Entry(number, "deploy", "2026-01-01T00:00:00Z", None, None, "a", document)
            for number, document in enumerate(documents, start=1)
        ]
        self._log = {"metadata": {"name": HISTORY}, "data": history_log._data(entries)}

    def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._log


def test_the_settings_of_earlier_deployments_are_those_that_can_be_read() -> None:
    first = Settings(pools={"gpu": Pool(node_selector={"hardware": "gpu"})})
    second = Settings(pools={"cheap": Pool()})
    documents: list[Any] = [
        first.deployed_document(),
        {"pools": 1},
        second.deployed_document(),
    ]
    log: Any = Log(*documents)
    known = history_log.earlier_settings(log)
    assert [list(each.pools or {}) for each in known] == [["cheap"], ["gpu"]]


def test_who_may_not_read_the_log_knows_no_earlier_settings() -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise Refused("cannot read the log", 403, b"")

    forbidden: Any = SimpleNamespace(get=refuse)
    assert history_log.earlier_settings(forbidden) == []


@pytest.mark.parametrize("data", [None, {}])
def test_without_deployments_there_are_none(data: Any) -> None:
    fresh: Any = SimpleNamespace(get=lambda *_, **__: data)
    assert history_log.earlier_settings(fresh) == []

"""Ports that are reserved for servers which do not listen yet."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.clusters.embedded import ports
from fairlead.common.errors import FairleadError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate cache folder for the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fairlead"


def test_a_port_that_is_taken_is_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_KEPT", 0.0)
    (taken,) = ports.free_ports(1)
    with socket.create_server((ports.HOST, taken)):
        monkeypatch.setattr(ports, "_LOWEST", taken)
        monkeypatch.setattr(ports, "_HIGHEST", taken)
        with pytest.raises(FairleadError, match="only 0 of 1 ports are free"):
            ports.free_ports(1)
    assert ports.free_ports(1) == [taken]


def test_no_port_is_given_twice_though_nobody_listens_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_LOWEST", 20000)
    monkeypatch.setattr(ports, "_HIGHEST", 20399)
    with ThreadPoolExecutor(8) as several:
        given = [
            port
            for reserved in several.map(lambda _: ports.free_ports(10), range(20))
            for port in reserved
        ]
    assert len(set(given)) == 200


def test_what_was_given_long_ago_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_LOWEST", 20400)
    monkeypatch.setattr(ports, "_HIGHEST", 20419)
    first = ports.free_ports(15)
    with pytest.raises(FairleadError, match="of 15 ports are free"):
        ports.free_ports(15)
    monkeypatch.setattr(ports, "_KEPT", 0.0)
    assert len(set(first) & set(ports.free_ports(15))) >= 10


@pytest.mark.parametrize("text", ["", "{", "[]", '{"1": "x"}', "null"])
def test_a_file_that_somebody_broke_is_written_again(cache: Path, text: str) -> None:
    cache.mkdir()
    (cache / "ports.json").write_text(text)
    (port,) = ports.free_ports(1)
    assert f'"{port}"' in (cache / "ports.json").read_text()


def test_a_cache_that_cannot_be_written_keeps_nobody_from_starting(cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert len(ports.free_ports(3)) == 3

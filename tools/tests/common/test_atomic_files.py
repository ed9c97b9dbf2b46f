"""Files are replaced in one step, or not at all."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fairlead.common.atomic_files import write_all, write_private


def test_a_reader_of_a_replaced_file_keeps_the_whole_old_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_private(path, b"old")
    with path.open("rb") as reader:
        write_private(path, b"new")
        assert (reader.read(), path.read_bytes()) == (b"old", b"new")


def test_several_writers_leave_no_reader_with_half_a_file(tmp_path: Path) -> None:
    path, mixed = tmp_path / "kubeconfig", set()
    contents = {bytes([letter]) * 200_000 for letter in b"abcd"}
    write_private(path, b"a" * 200_000)

    def write(data: bytes) -> None:
        for _ in range(200):
            write_private(path, data)

    with ThreadPoolExecutor(len(contents)) as writers:
        written = [writers.submit(write, data) for data in contents]
        while not all(future.done() for future in written):
            mixed |= {path.read_bytes()} - contents
    for future in written:
        future.result()
    assert mixed == set()
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "inside").touch()
    with pytest.raises(OSError, match="taken"):
        write_private(taken, b"x")
    assert list(tmp_path.iterdir()) == [taken]


def test_a_private_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("open to all")
    path.chmod(0o644)
    write_private(path, b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_if_one_file_cannot_be_written_none_is_replaced(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "folder" / "second"
    write_all({first: "new", second: "new"})
    assert [first.read_text(), second.read_text()] == ["new", "new"]
    with pytest.raises(FileExistsError):
        write_all({second: "newer", first / "below": "newer"})
    assert [first.read_text(), second.read_text()] == ["new", "new"]


def test_texts_and_bytes_are_written_together(tmp_path: Path) -> None:
    svg, png = tmp_path / "new" / "picture.svg", tmp_path / "new" / "picture.png"
    write_all({svg: "<svg>é</svg>", png: b"\x89PNG"})
    assert (svg.read_text(encoding="utf-8"), png.read_bytes()) == ("<svg>é</svg>", b"\x89PNG")

"""The files of a mounted Secret change all at once, as the kubelet changes them."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from threading import Event, Thread

from fairlead.clusters.embedded import volume


def test_what_was_written_can_be_read_by_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    assert volume.write(folder, {"a": b"1", "b": b"2"})
    assert (folder / "a").read_bytes() == b"1"
    assert volume.read(folder) == {"a": b"1", "b": b"2"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "a").stat().st_mode) == 0o600


def test_the_same_contents_change_nothing(tmp_path: Path) -> None:
    assert volume.write(tmp_path, {"a": b"1"})
    before = (tmp_path / "..data").readlink()
    assert not volume.write(tmp_path, {"a": b"1"})
    assert (tmp_path / "..data").readlink() == before


def test_what_is_gone_or_left_over_is_removed(tmp_path: Path) -> None:
    volume.write(tmp_path, {"a": b"1", "b": b"2"})
    (tmp_path / "..half").mkdir()
    (tmp_path / "stray").write_text("x")
    volume.write(tmp_path, {"a": b"3"})
    assert {path.name for path in tmp_path.iterdir()} == {
        "a",
        "..data",
        (tmp_path / "..data").readlink().name,
    }
    assert volume.read(tmp_path) == {"a": b"3"}


def test_no_reader_finds_one_file_old_and_the_other_new(tmp_path: Path) -> None:
    volume.write(tmp_path, {"crt": b"0", "key": b"0"})
    stop, seen = Event(), set()

    def read() -> None:
        while not stop.is_set():
            files = volume.read(tmp_path)
            seen.add((files.get("crt"), files.get("key")))

    reader = Thread(target=read)
    reader.start()
    for number in range(200):
        volume.write(tmp_path, {"crt": b"%d" % number, "key": b"%d" % number})
    stop.set()
    reader.join()
    assert seen
    assert all(crt is not None and crt == key for crt, key in seen)


def test_nothing_was_written_yet(tmp_path: Path) -> None:
    assert volume.read(tmp_path / "none") == {}


def test_contents_that_somebody_removed_are_written_again(tmp_path: Path) -> None:
    volume.write(tmp_path, {"a": b"1"})
    shutil.rmtree(tmp_path / (tmp_path / "..data").readlink())
    assert volume.read(tmp_path) == {}
    assert volume.write(tmp_path, {"a": b"1"})
    assert volume.read(tmp_path) == {"a": b"1"}

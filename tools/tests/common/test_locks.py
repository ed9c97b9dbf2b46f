"""One holder of a lock at a time, also if the file is removed while somebody waits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from fairlead.common import locks

DEADLINE = 10.0


def test_whoever_waits_for_a_folder_that_is_removed_makes_and_locks_a_new_one(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "cluster"
    made = Event()
    times_made = 0

    def create() -> None:
        nonlocal times_made
        folder.mkdir(exist_ok=True)
        times_made += 1
        if times_made == 2:  # once for each of the two
            made.set()

    def wait() -> bool:
        with locks.exclusive(folder, create=create):
            return folder.is_dir()

    with ThreadPoolExecutor(1) as other:
        with locks.exclusive(folder, create=create):
            waiter = other.submit(wait)
            assert made.wait(DEADLINE)
            folder.rmdir()
        assert waiter.result(DEADLINE)
    assert times_made >= 2


def test_pause_decides_how_long_a_holder_is_waited_for(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    attempts = 0

    def pause() -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 3:
            raise TimeoutError

    with (
        locks.exclusive(lock, create=lock.touch),
        pytest.raises(TimeoutError),
        locks.exclusive(lock, create=lock.touch, pause=pause),
    ):
        pass
    assert attempts == 3
    with locks.exclusive(lock, create=lock.touch, pause=pause):
        assert attempts == 3

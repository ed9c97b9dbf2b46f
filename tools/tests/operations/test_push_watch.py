"""`fairlead push --watch` pushes again when a policy or the settings file changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.cli.operations import push as push_command
from fairlead.operations import push


class _StillWatchingError(Exception):
    """Raised instead of a second wait: nothing has changed."""


def looked(watched: list[int]) -> Callable[[], None]:
    """A wait that allows one look between two changes."""

    def wait() -> None:
        watched.append(1)
        if len(watched) > 1:
            raise _StillWatchingError

    return wait


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "main.rego").write_text("package system.main\n")
    return folder


def test_each_change_of_a_policy_or_of_the_settings_is_noticed_once(
    tmp_path: Path, policies: Path
) -> None:
    settings, other = tmp_path / "fairlead.yaml", tmp_path / "other.yaml"
    other.write_text("contact: them\n")
    in_force = [settings]
    waits: list[int] = []
    changes = push.changes(
        lambda: [policies], lambda: in_force[0] if in_force[0].exists() else None, looked(waits)
    )
    next(changes)

    def noticed() -> None:
        waits.clear()
        next(changes)

    (policies / "new.rego").write_text("package new\n")
    noticed()
    settings.write_text("contact: me\n")
    noticed()
    settings.write_text("contact: myself\n")
    noticed()
    in_force[0] = other
    noticed()
    other.unlink()
    noticed()
    (policies / "new.rego").unlink()
    noticed()
    (tmp_path / "unwatched.yaml").write_text("contact: nobody\n")
    with pytest.raises(_StillWatchingError):
        noticed()


def test_ctrl_c_between_two_pushes_ends_the_watch_without_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def changes() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    assert len(list(push_command._until_stopped(changes()))) == 1
    assert capsys.readouterr().err == "stopped watching\n"


def test_ctrl_c_in_a_push_is_an_error() -> None:
    def push_once() -> None:
        for _ in push_command._until_stopped(iter([None])):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        push_once()

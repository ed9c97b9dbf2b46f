"""Runs `fairlead place` in this process."""

from __future__ import annotations

from typing import Any

import yaml
from click.testing import CliRunner, Result

from fairlead.cli.placement.place import command


def run(*objects: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    """The result of the command for these manifests, and the data of the working directory."""
    return CliRunner().invoke(
        command,
        ["-f", "-", *options],
        input=yaml.safe_dump_all(objects),
        standalone_mode=False,
        catch_exceptions=False,
    )
